//! The query string: `name=value` pairs, decoded. What a name means, and that it may come once only, is the
//! reader's to check; here only the form is.

use super::segment;
use crate::error::Problem;

/// Decoded parameters, in the order they came.
pub type Params = Vec<(String, String)>;

/// More than any resource takes.
const PARAMS_MAX: usize = 16;

/// Splits and decodes a query string; `+` is a space.
///
/// # Errors
/// 400.
pub fn parse_params(query: Option<&str>) -> Result<Params, Problem> {
    let Some(query) = query else {
        return Ok(Vec::new());
    };
    let pairs: Vec<&str> = query.split('&').collect();
    if pairs.len() > PARAMS_MAX {
        return Err(Problem::malformed("too many parameters"));
    }
    let mut params: Params = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Problem::malformed("a parameter has no value: each is name=value"))?;
        let name = segment::text(&name.replace('+', " "))?.into_owned();
        let value = segment::text(&value.replace('+', " "))
            .map_err(|problem| problem.of_parameter(name.clone()))?
            .into_owned();
        if params.iter().any(|(known, _)| *known == name) {
            return Err(Problem::malformed("a parameter is given twice").of_parameter(name));
        }
        params.push((name, value));
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k4_duplicates_are_refused_and_delimiters_survive_encoding() {
        assert!(parse_params(Some("filter={}&filter={}")).is_err());
        let params = parse_params(Some("filter=%7B%22a%22:%22x%26y%2B%23%00%22%7D&sort=a+b"))
            .expect("valid");
        assert_eq!(params[0].1, "{\"a\":\"x&y+#\0\"}");
        assert_eq!(params[1].1, "a b");
        for bad in ["", "a", "a=1&", "&a=1", "a=%", "a=%ff"] {
            assert!(parse_params(Some(bad)).is_err(), "{bad}");
        }
        assert_eq!(parse_params(None).expect("none"), Params::new());
    }
}
