//! Reading a resume token's cluster time.
//!
//! A token's `_data` is a hexadecimal KeyString: a type byte (0x82, a timestamp), then seconds and increment,
//! big-endian. The rest is the server's business.

use bson::RawDocument;
use freshet_core::time::Position;

/// The type byte of a timestamp in a KeyString.
const TIMESTAMP: u8 = 0x82;

/// The cluster time of a token; `None` when it is not one that we can read.
pub(super) fn position(token: &RawDocument) -> Option<Position> {
    let data = token.get_str("_data").ok()?;
    let digits = data.get(..18)?;
    if u8::from_str_radix(digits.get(..2)?, 16).ok()? != TIMESTAMP {
        return None;
    }
    u64::from_str_radix(digits.get(2..)?, 16).ok().map(Position)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn the_time_is_in_bytes_one_to_eight() {
        let token = rawdoc! { "_data": "826566E4E7000000032B0229296E04" };
        assert_eq!(
            position(&token),
            Some(Position::from_timestamp(0x6566_E4E7, 3))
        );
    }

    #[test]
    fn what_is_no_token_has_no_time() {
        for data in [
            "",
            "82",
            "ZZ6566E4E700000003",
            "8265é6E4E700000003",
            "0065 66E4E700000003",
        ] {
            assert_eq!(position(&rawdoc! { "_data": data }), None, "{data}");
        }
        assert_eq!(position(&rawdoc! { "_data": 1 }), None);
    }
}
