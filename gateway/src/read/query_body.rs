//! A query in a body: the QUERY method (RFC 10008) and `POST …/_query`, for filters too long for a URL. Never
//! cached; `Location` names the equivalent GET.
//!
//! The body is a JSON object with the members of the query string. `filter` is a document, `sort` and `fields` the
//! text they are in a URL, `skip` and `limit` numbers.

use freshet_core::name::Namespace;
use http::header::{CONTENT_LOCATION, LOCATION};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use super::answer::{self, Wanted};
use super::asked::Asked;
use super::fetch::fetch;
use super::permit::{Permitted, check};
use super::reason::Reason;
use crate::app::App;
use crate::error::Problem;
use crate::respond::Reply;
use crate::route::{Params, Route};

/// Answers a query in a body.
///
/// # Errors
/// The problem to send instead.
pub async fn read(
    app: &App,
    namespace: Namespace,
    body: &[u8],
    wanted: Wanted<'_>,
) -> Result<Reply, Problem> {
    let asked = Asked::parse(Route::Collection(namespace), &parameters(body)?)?;
    let Permitted { asked, .. } = check(app, asked, false, wanted.headers)?;
    let key = asked.key();
    app.metrics.not_cached(Reason::QueryBody);
    let fetched = fetch(app, &asked, app.pipeline.position()).await?;
    let mut reply = answer::uncached(wanted, key.as_str(), &fetched, Reason::QueryBody)?;
    reply.headers_mut().remove(CONTENT_LOCATION);
    // A filter that only the database can decide has no GET of its own key, but the URL is answered all the same.
    if let Some(location) = wanted.url(key.as_str()) {
        reply.headers_mut().insert(LOCATION, location);
    }
    Ok(reply)
}

/// The members as the parameters they stand for. The filter's text goes on as it is: it is read once, exactly.
///
/// # Errors
/// 400.
pub fn parameters(body: &[u8]) -> Result<Params, Problem> {
    // Checked as Extended JSON first: that refuses repeated names at every depth, which a map would swallow.
    freshet_core::value::ejson::parse_document(body)
        .map_err(|error| Problem::malformed(error.detail).at(error.pointer))?;
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body)
        .map_err(|_| Problem::malformed("the body is not a JSON object"))?;
    members
        .into_iter()
        .map(|(name, value)| {
            let text = match (name.as_str(), serde_json::from_str::<String>(value.get())) {
                // A document in place of the text would be taken for the name of a field.
                ("sort" | "fields" | "view" | "rep" | "after", Err(_)) => {
                    let problem = Problem::malformed("must be the text that it is in a URL");
                    return Err(problem.at(format!("/{name}")).of_parameter(name));
                }
                ("skip" | "limit", Ok(_)) => {
                    let problem = Problem::malformed("must be a number");
                    return Err(problem.at(format!("/{name}")).of_parameter(name));
                }
                ("filter", _) | (_, Err(_)) => value.get().to_owned(),
                (_, Ok(text)) => text,
            };
            Ok((name, text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_become_parameters() {
        let body = br#"{"limit":5,"filter":{"a":{"$gt":1}},"sort":"-a","rep":"canonical"}"#;
        let pairs = parameters(body).expect("valid");
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("filter", "{\"a\":{\"$gt\":1}}"),
                ("limit", "5"),
                ("rep", "canonical"),
                ("sort", "-a")
            ]
        );
    }

    #[test]
    fn what_is_no_object_repeats_a_name_or_has_another_form_is_refused() {
        for body in [
            "[]",
            "5",
            "",
            "{\"limit\":1,\"limit\":2}",
            "{\"filter\":{\"a\":1,\"a\":2}}",
            "{\"sort\":{\"a\":1}}",
            "{\"fields\":[\"a\"]}",
            "{\"limit\":\"5\"}",
        ] {
            assert!(parameters(body.as_bytes()).is_err(), "{body}");
        }
    }
}
