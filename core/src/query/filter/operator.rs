//! One operator and its operand, read from an operator object; the checks are those of MongoDB's parser.

use bson::raw::CString;
use bson::{RawBson, RawBsonRef, RawDocument, RawRegexRef, Regex};

use super::operand::{integer, truncated};
use super::parse::{Parser, list, operator_name};
use super::{AllMember, BitMask, BitTest, Operator, Pattern, TypeSet, canonical};
use crate::query::FilterError;

/// What a field of an operator object is.
pub(super) enum Read {
    /// An operator.
    Operator(Operator),
    /// Read together with another field (`$options`).
    PartOfAnother,
    /// An operator that only the database decides, or an argument of one.
    Database(&'static str),
    /// Nothing known.
    Unknown,
}

/// Operators at a path that only the database decides, and their arguments.
const DATABASE_OPERATORS: [&str; 9] = [
    "$geoWithin",
    "$geoIntersects",
    "$geoNear",
    "$near",
    "$nearSphere",
    "$within",
    "$maxDistance",
    "$minDistance",
    "$uniqueDocs",
];

/// Reads the field `name` of the operator object `all`.
pub(super) fn read(
    parser: &mut Parser,
    all: &RawDocument,
    name: &str,
    value: RawBsonRef<'_>,
) -> Result<Read, FilterError> {
    Ok(Read::Operator(match name {
        "$eq" => Operator::Eq(value.into()),
        "$ne" => Operator::Ne(not_regex(name, value)?),
        "$gt" => Operator::Gt(not_regex(name, value)?),
        "$gte" => Operator::Gte(not_regex(name, value)?),
        "$lt" => Operator::Lt(not_regex(name, value)?),
        "$lte" => Operator::Lte(not_regex(name, value)?),
        "$in" => Operator::In(members(name, value)?),
        "$nin" => Operator::Nin(members(name, value)?),
        "$exists" => Operator::Exists(truth(value)),
        "$type" => {
            if matches!(value, RawBsonRef::Array(_)) {
                list(name, value)?;
            }
            Operator::Type(TypeSet::parse(value)?)
        }
        "$regex" => Operator::Regex(regex_and_options(all, value)?),
        "$options" => return options_alone(all),
        "$mod" => modulo(value)?,
        "$all" => Operator::All(all_members(parser, value)?),
        "$elemMatch" => Operator::ElemMatch(parser.elem_match(value)?),
        "$size" => match integer(value) {
            Some(size) if size >= 0 => Operator::Size(size),
            _ => return Err(FilterError::operand("$size needs an integer from 0")),
        },
        "$bitsAllSet" => Operator::Bits(BitTest::AllSet, bits(name, value)?),
        "$bitsAllClear" => Operator::Bits(BitTest::AllClear, bits(name, value)?),
        "$bitsAnySet" => Operator::Bits(BitTest::AnySet, bits(name, value)?),
        "$bitsAnyClear" => Operator::Bits(BitTest::AnyClear, bits(name, value)?),
        "$not" => not(parser, value)?,
        _ => {
            let known = DATABASE_OPERATORS.iter().find(|known| **known == name);
            return Ok(known.map_or(Read::Unknown, |known| Read::Database(known)));
        }
    }))
}

fn not_regex(name: &str, value: RawBsonRef<'_>) -> Result<RawBson, FilterError> {
    match value {
        RawBsonRef::RegularExpression(_) => Err(FilterError::operand(format!(
            "{name} cannot compare with a regular expression"
        ))),
        value => Ok(value.into()),
    }
}

fn members(name: &str, value: RawBsonRef<'_>) -> Result<Vec<RawBson>, FilterError> {
    let mut members = Vec::new();
    for (index, member) in list(name, value)?.into_iter().enumerate() {
        members.push(match member? {
            RawBsonRef::Document(document) if operator_name(document)?.is_some() => {
                let detail = format!("{name} holds values, not operators");
                return Err(FilterError::operand(detail).within(index));
            }
            RawBsonRef::RegularExpression(found) => {
                let pattern = regex(found).map_err(|error| error.within(index))?;
                pattern.to_value()
            }
            member => member.into(),
        });
    }
    Ok(canonical::values(members))
}

/// What MongoDB takes for true: everything but false, null and zero.
fn truth(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(truth) => truth,
        RawBsonRef::Null => false,
        number => integer(number) != Some(0),
    }
}

/// A regular expression value.
pub(super) fn regex(value: RawRegexRef<'_>) -> Result<Pattern, FilterError> {
    pattern(value.pattern.as_str(), value.options.as_str())
}

fn pattern(source: &str, options: &str) -> Result<Pattern, FilterError> {
    let pattern = CString::try_from(source)
        .map_err(|_| FilterError::operand("a pattern cannot hold U+0000"))?;
    let mut letters: Vec<char> = options.chars().collect();
    letters.sort_unstable();
    let given = letters.len();
    letters.dedup();
    let known = letters.len() == given && letters.iter().all(|letter| "imsux".contains(*letter));
    match CString::try_from(letters.into_iter().collect::<String>()) {
        Ok(options) if known => Ok(Pattern(Regex { pattern, options })),
        _ => Err(FilterError::operand(
            "the options of a regular expression are out of i, m, s, u, x, each once",
        )),
    }
}

fn regex_and_options(all: &RawDocument, value: RawBsonRef<'_>) -> Result<Pattern, FilterError> {
    let options = match all.get("$options")? {
        Some(RawBsonRef::String(options)) => Some(options),
        Some(_) => return Err(FilterError::operand("$options needs a string")),
        None => None,
    };
    match (value, options) {
        (RawBsonRef::String(source), options) => pattern(source, options.unwrap_or_default()),
        (RawBsonRef::RegularExpression(value), None) => regex(value),
        (RawBsonRef::RegularExpression(value), Some(options)) if value.options.is_empty() => {
            pattern(value.pattern.as_str(), options)
        }
        (RawBsonRef::RegularExpression(_), Some(_)) => Err(FilterError::operand(
            "options are given both in $regex and in $options",
        )),
        _ => Err(FilterError::operand(
            "$regex needs a string or a regular expression",
        )),
    }
}

fn options_alone(all: &RawDocument) -> Result<Read, FilterError> {
    match all.get("$regex")? {
        Some(_) => Ok(Read::PartOfAnother),
        None => Err(FilterError::operand("$options needs a $regex")),
    }
}

fn modulo(value: RawBsonRef<'_>) -> Result<Operator, FilterError> {
    let mut numbers = Vec::new();
    for (index, number) in list("$mod", value)?.into_iter().enumerate() {
        numbers.push(truncated(number?).ok_or_else(|| {
            FilterError::operand("$mod needs finite numbers within 64 bits").within(index)
        })?);
    }
    match numbers[..] {
        [0, _] => Err(FilterError::operand("$mod needs a divisor other than 0").within(0)),
        [divisor, remainder] => Ok(Operator::Mod { divisor, remainder }),
        _ => Err(FilterError::operand("$mod needs a divisor and a remainder")),
    }
}

fn all_members(parser: &mut Parser, value: RawBsonRef<'_>) -> Result<Vec<AllMember>, FilterError> {
    let mut members = Vec::new();
    for (index, member) in list("$all", value)?.into_iter().enumerate() {
        let read = all_member(parser, member?).map_err(|error| error.within(index))?;
        members.push(read);
    }
    let nested = members
        .iter()
        .filter(|m| matches!(m, AllMember::ElemMatch(_)))
        .count();
    if nested != 0 && nested != members.len() {
        return Err(FilterError::operand(
            "$all holds either values or $elemMatch, not both",
        ));
    }
    Ok(canonical::all_members(members))
}

fn all_member(parser: &mut Parser, member: RawBsonRef<'_>) -> Result<AllMember, FilterError> {
    let document = match member {
        RawBsonRef::Document(document) => document,
        RawBsonRef::RegularExpression(found) => {
            return Ok(AllMember::Value(regex(found)?.to_value()));
        }
        member => return Ok(AllMember::Value(member.into())),
    };
    match operator_name(document)? {
        None => Ok(AllMember::Value(member.into())),
        Some("$elemMatch") if document.iter().count() == 1 => match document.get("$elemMatch")? {
            Some(operand) => {
                let read = parser.elem_match(operand);
                Ok(AllMember::ElemMatch(
                    read.map_err(|e| e.within("$elemMatch"))?,
                ))
            }
            None => Err(FilterError::operand("$elemMatch needs an object")),
        },
        Some(_) => Err(FilterError::operand(
            "$all holds values or $elemMatch alone",
        )),
    }
}

fn bits(name: &str, value: RawBsonRef<'_>) -> Result<BitMask, FilterError> {
    match value {
        RawBsonRef::Array(_) => {
            let mut positions = Vec::new();
            for (index, position) in list(name, value)?.into_iter().enumerate() {
                let position = integer(position?).and_then(|p| i32::try_from(p).ok());
                positions.push(
                    position
                        .and_then(|p| u32::try_from(p).ok())
                        .ok_or_else(|| {
                            FilterError::operand(
                                "a bit position is an integer from 0 to 2147483647",
                            )
                            .within(index)
                        })?,
                );
            }
            positions.sort_unstable();
            positions.dedup();
            Ok(BitMask::Positions(positions))
        }
        RawBsonRef::Binary(binary) => Ok(BitMask::Binary(binary.to_binary())),
        _ => match integer(value) {
            Some(mask) if mask >= 0 => Ok(BitMask::Number(mask)),
            _ => Err(FilterError::operand(format!(
                "{name} needs an integer from 0, a binary value or a list of positions"
            ))),
        },
    }
}

fn not(parser: &mut Parser, value: RawBsonRef<'_>) -> Result<Operator, FilterError> {
    let operators = match value {
        RawBsonRef::RegularExpression(found) => vec![Operator::Regex(regex(found)?)],
        RawBsonRef::Document(document) => parser.operators(document)?,
        _ => {
            return Err(FilterError::operand(
                "$not needs an operator object or a regular expression",
            ));
        }
    };
    // An object that holds nothing but an operator for the database has no clause of ours; it is kept whole.
    if matches!(value, RawBsonRef::Document(document) if document.is_empty()) {
        return Err(FilterError::operand("$not cannot be empty"));
    }
    Ok(Operator::Not(canonical::operators(operators)))
}
