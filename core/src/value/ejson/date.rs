//! Dates as text: the profile of ISO 8601 that Extended JSON takes (RFC 3339 with a `T`, an offset, and no
//! more than milliseconds), proleptic Gregorian, years 0000 to 9999. No leap seconds.

use std::fmt::Write as _;

use super::super::json::Sink;
use super::super::number::StackText;

const MS_PER_DAY: i64 = 86_400_000;
/// 1970-01-01 and 10000-01-01: between them relaxed form writes the text.
const TEXT_MS: std::ops::Range<i64> = 0..253_402_300_800_000;

/// Writes the date as relaxed form has it, quoted; `false` when it must be written as a number.
pub(super) fn write(out: &mut impl Sink, ms: i64) -> bool {
    if !TEXT_MS.contains(&ms) {
        return false;
    }
    let (year, month, day) = civil(ms.div_euclid(MS_PER_DAY));
    let rest = ms.rem_euclid(MS_PER_DAY);
    let (h, m, s, milli) = (
        rest / 3_600_000,
        rest / 60_000 % 60,
        rest / 1000 % 60,
        rest % 1000,
    );
    let mut text = StackText::<40>::new();
    let _ = write!(text, "\"{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}");
    if milli != 0 {
        let _ = write!(text, ".{milli:03}");
    }
    out.put(text.as_str());
    out.put("Z\"");
    true
}

/// Milliseconds since 1970, or `None` where the text is no such date.
pub(super) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let fixed = bytes.get(..19)?;
    let shape = fixed.iter().enumerate().all(|(i, byte)| match i {
        4 | 7 => *byte == b'-',
        10 => *byte == b'T',
        13 | 16 => *byte == b':',
        _ => byte.is_ascii_digit(),
    });
    if !shape {
        return None;
    }
    let number = |from: usize, to: usize| {
        fixed[from..to]
            .iter()
            .fold(0i64, |n, digit| n * 10 + i64::from(digit - b'0'))
    };
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let (h, m, s) = (number(11, 13), number(14, 16), number(17, 19));
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && h < 24
        && m < 60
        && s < 60;
    if !in_range {
        return None;
    }
    let (milli, zone) = fraction(&bytes[19..])?;
    let local = ((days(year, month, day) * 24 + h) * 60 + m) * 60 + s;
    Some((local - offset_seconds(zone)?) * 1000 + milli)
}

/// Milliseconds after the point, and what follows. Digits beyond the third must be zero: nothing is lost.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(after) = rest.strip_prefix(b".") else {
        return Some((0, rest));
    };
    let len = after.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, zone) = after.split_at(len);
    if digits.is_empty() || digits.iter().skip(3).any(|b| *b != b'0') {
        return None;
    }
    let milli = (0..3).fold(0, |n, i| {
        n * 10 + i64::from(digits.get(i).map_or(0, |b| b - b'0'))
    });
    Some((milli, zone))
}

/// `Z`, `±hh:mm`, `±hhmm` or `±hh`.
fn offset_seconds(zone: &[u8]) -> Option<i64> {
    let (sign, digits) = match zone {
        b"Z" => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (h1, h0, m1, m0) = match digits {
        [a, b] => (*a, *b, b'0', b'0'),
        [a, b, c, d] | [a, b, b':', c, d] => (*a, *b, *c, *d),
        _ => return None,
    };
    if ![h1, h0, m1, m0].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let pair = |a: u8, b: u8| i64::from(a - b'0') * 10 + i64::from(b - b'0');
    let (hours, minutes) = (pair(h1, h0), pair(m1, m0));
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years begin in March here, so that the leap day comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
        - 719_468
}

/// The inverse of [`days`], for days from 1970 on.
fn civil(since_1970: i64) -> (i64, i64, i64) {
    let days = since_1970 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_milliseconds() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("2012-12-24T12:15:30.501Z", Some(1_356_351_330_501)),
            ("2012-12-24T13:15:30.501+01:00", Some(1_356_351_330_501)),
            ("2012-12-24T06:45:30.501-0530", Some(1_356_351_330_501)),
            ("2012-12-24T11:15:30.5-01", Some(1_356_351_330_500)),
            ("2000-02-29T00:00:00Z", Some(951_782_400_000)),
            ("0000-01-01T00:00:00Z", Some(-62_167_219_200_000)),
            ("9999-12-31T23:59:59.999Z", Some(253_402_300_799_999)),
            ("2012-12-24T12:15:30.501000Z", Some(1_356_351_330_501)),
            ("2012-12-24T12:15:30.5015Z", None),
            ("1900-02-29T00:00:00Z", None),
            ("2012-12-24T24:00:00Z", None),
            ("2012-12-24T12:15:60Z", None),
            ("2012-12-24 12:15:30Z", None),
            ("2012-12-24T12:15:30", None),
            ("2012-12-24", None),
            ("+02012-12-24T12:15:30Z", None),
            ("1444394707664", None),
            ("2012-12-24T12:15:30.Z", None),
            ("2012-12-24T12:15:30Zé", None),
        ] {
            assert_eq!(parse(text), ms, "{text}");
        }
    }

    #[test]
    fn every_day_of_relaxed_form_reads_back() {
        for day in (0..2_932_897).step_by(13) {
            let ms = day * MS_PER_DAY + day % 1000;
            let mut out = String::new();
            assert!(write(&mut out, ms));
            assert_eq!(parse(out.trim_matches('"')), Some(ms), "{out}");
        }
        assert!(!write(&mut String::new(), -1));
        assert!(!write(&mut String::new(), 253_402_300_800_000));
    }
}
