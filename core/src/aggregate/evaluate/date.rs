//! Parts of dates, in UTC.

use bson::RawBson;

use super::super::Function;
use super::expression::is_nullish;
use super::{Failure, Value};

const DAY_MS: i64 = 86_400_000;
/// Days from 0000-03-01 to 1970-01-01, and in 400 years.
const EPOCH_DAYS: i64 = 719_468;
const ERA_DAYS: i64 = 146_097;

/// `$year`, `$month`, `$dayOfMonth`.
pub(super) fn part(function: Function, value: &Value) -> Result<Value, Failure> {
    let ms = match value {
        value if is_nullish(value) => return Ok(Some(RawBson::Null)),
        Some(RawBson::DateTime(date)) => date.timestamp_millis(),
        Some(RawBson::Timestamp(timestamp)) => i64::from(timestamp.time) * 1000,
        Some(RawBson::ObjectId(id)) => id.timestamp().timestamp_millis(),
        _ => return Err(Failure::invalid("a date is needed")),
    };
    let (year, month, day) = civil(ms.div_euclid(DAY_MS));
    if !(0..=9999).contains(&year) {
        return Err(Failure::undecided("a date outside the years 0 to 9999"));
    }
    let part = match function {
        Function::Year => year,
        Function::Month => month,
        _ => day,
    };
    Ok(Some(RawBson::Int32(i32::try_from(part).unwrap_or(0))))
}

/// Year, month and day of a day since 1970, in the proleptic Gregorian calendar. Years begin in March here, so that
/// leap days come last: <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(ERA_DAYS);
    let of_era = days.rem_euclid(ERA_DAYS);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (19_782, (2024, 2, 29)),
            (-719_528, (0, 1, 1)),
        ] {
            assert_eq!(civil(days), date, "{days}");
        }
    }
}
