//! Base 64 with padding (RFC 4648 §4), strict on the way in: no white space, no stray bits.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the text of `bytes`, piece by piece.
pub(super) fn encode(bytes: &[u8], mut put: impl FnMut(&str)) {
    for chunk in bytes.chunks(3) {
        let mut group = [b'='; 4];
        let word = chunk.iter().enumerate().fold(0u32, |word, (i, byte)| {
            word | u32::from(*byte) << (16 - 8 * i)
        });
        for (i, symbol) in group.iter_mut().enumerate().take(chunk.len() + 1) {
            *symbol = ALPHABET[(word >> (18 - 6 * i)) as usize & 63];
        }
        put(std::str::from_utf8(&group).unwrap_or_default());
    }
}

/// The bytes, or `None` where the text is not what [`encode`] writes.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let data = text.trim_end_matches('=');
    if text.len() - data.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in data.as_bytes().chunks(4) {
        let mut word = 0u32;
        for (i, symbol) in chunk.iter().enumerate() {
            word |= value(*symbol)? << (18 - 6 * i);
        }
        let whole = chunk.len() - 1;
        let be = word.to_be_bytes();
        if chunk.len() == 1 || be[1 + whole..].iter().any(|b| *b != 0) {
            return None;
        }
        bytes.extend_from_slice(&be[1..=whole]);
    }
    Some(bytes)
}

fn value(symbol: u8) -> Option<u32> {
    Some(u32::from(match symbol {
        b'A'..=b'Z' => symbol - b'A',
        b'a'..=b'z' => symbol - b'a' + 26,
        b'0'..=b'9' => symbol - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        let mut out = String::new();
        encode(bytes, |piece| out.push_str(piece));
        out
    }

    #[test]
    fn the_vectors_of_rfc_4648_section_10() {
        for (bytes, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(text(bytes.as_bytes()), encoded);
            assert_eq!(decode(encoded).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn what_encode_does_not_write_is_refused() {
        for bad in [
            "Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zm9v\n", "Zm-v", "Z===", "Zg==Zg==",
        ] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
