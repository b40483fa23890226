//! A request's body: within its limits of size and time, and of a media type that the resource takes.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use crate::config::settings::Settings;
use crate::error::{Kind, Problem};

/// Collects a body.
///
/// # Errors
/// 413 when it is too large, 408 when it takes too long, 400 when it breaks off.
pub async fn collect(
    body: Incoming,
    headers: &HeaderMap,
    settings: &Settings,
) -> Result<Bytes, Problem> {
    let max = settings.limits.body_bytes_max;
    let too_large = || Problem::new(Kind::TooLarge, format!("at most {} bytes", max.0));
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > max.0) {
        return Err(too_large());
    }
    let reading = Limited::new(body, max.len()).collect();
    match tokio::time::timeout(settings.server.body_read_timeout, reading).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::malformed("the body broke off")),
        Err(_) => Err(Problem::new(
            Kind::RequestTimeout,
            "the body took too long to arrive",
        )),
    }
}

/// What a body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`: Extended JSON.
    Json,
    /// `application/merge-patch+json` (RFC 7396).
    MergePatch,
    /// `application/vnd.freshet.update+json`: MongoDB's update operators.
    Update,
}

impl Media {
    /// The body's media type, if it is one of `allowed`.
    ///
    /// # Errors
    /// 415.
    pub fn of(headers: &HeaderMap, allowed: &[Media]) -> Result<Media, Problem> {
        let coded = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if coded {
            return Err(Problem::new(
                Kind::UnsupportedMediaType,
                "a body is taken without Content-Encoding",
            ));
        }
        let value = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("");
        let mut parts = value.split(';').map(str::trim);
        let essence = parts.next().unwrap_or("").to_ascii_lowercase();
        let utf8 = parts.all(|parameter| match parameter.split_once('=') {
            Some((name, charset)) if name.eq_ignore_ascii_case("charset") => {
                charset.trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            _ => true,
        });
        allowed
            .iter()
            .copied()
            .find(|media| utf8 && media.name() == essence)
            .ok_or_else(|| {
                let names: Vec<&str> = allowed.iter().map(|media| media.name()).collect();
                Problem::new(
                    Kind::UnsupportedMediaType,
                    format!("taken here, in UTF-8: {}", names.join(", ")),
                )
            })
    }

    fn name(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::MergePatch => "application/merge-patch+json",
            Media::Update => "application/vnd.freshet.update+json",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn media_types() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            Media::of(&headers, &[Media::Json, Media::Update]).ok()
        };
        assert_eq!(of("application/json"), Some(Media::Json));
        assert_eq!(of("Application/JSON; charset=\"UTF-8\""), Some(Media::Json));
        assert_eq!(
            of("application/vnd.freshet.update+json"),
            Some(Media::Update)
        );
        for bad in [
            "application/json; charset=latin1",
            "text/plain",
            "",
            "application/merge-patch+json",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert!(Media::of(&HeaderMap::new(), &[Media::Json]).is_err());
        let mut coded = HeaderMap::new();
        coded.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        coded.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(Media::of(&coded, &[Media::Json]).is_err());
        coded.insert(CONTENT_ENCODING, HeaderValue::from_static("identity"));
        assert!(Media::of(&coded, &[Media::Json]).is_ok());
    }
}
