//! BSON types as `$type` names them: aliases, codes, and the set "number".
//! <https://www.mongodb.com/docs/manual/reference/operator/query/type/>

use bson::spec::ElementType;
use bson::{RawBson, RawBsonRef};

use crate::query::FilterError;
use crate::value::compare::rank_of;

/// Alias, code, element type; in the order of the aliases' bytes.
const ALIASES: [(&str, i32, Option<ElementType>); 22] = [
    ("array", 4, Some(ElementType::Array)),
    ("binData", 5, Some(ElementType::Binary)),
    ("bool", 8, Some(ElementType::Boolean)),
    ("date", 9, Some(ElementType::DateTime)),
    ("dbPointer", 12, Some(ElementType::DbPointer)),
    ("decimal", 19, Some(ElementType::Decimal128)),
    ("double", 1, Some(ElementType::Double)),
    ("int", 16, Some(ElementType::Int32)),
    ("javascript", 13, Some(ElementType::JavaScriptCode)),
    (
        "javascriptWithScope",
        15,
        Some(ElementType::JavaScriptCodeWithScope),
    ),
    ("long", 18, Some(ElementType::Int64)),
    ("maxKey", 127, Some(ElementType::MaxKey)),
    ("minKey", -1, Some(ElementType::MinKey)),
    ("null", 10, Some(ElementType::Null)),
    ("number", 0, None),
    ("object", 3, Some(ElementType::EmbeddedDocument)),
    ("objectId", 7, Some(ElementType::ObjectId)),
    ("regex", 11, Some(ElementType::RegularExpression)),
    ("string", 2, Some(ElementType::String)),
    ("symbol", 14, Some(ElementType::Symbol)),
    ("timestamp", 17, Some(ElementType::Timestamp)),
    ("undefined", 6, Some(ElementType::Undefined)),
];

/// A set of BSON types: bit i is the i-th alias in the order of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeSet(u32);

impl TypeSet {
    /// The set of these aliases; unknown names are ignored.
    #[must_use]
    pub(crate) fn of(aliases: &[&str]) -> TypeSet {
        let known = aliases.iter().filter_map(|alias| index_of_alias(alias));
        TypeSet(known.fold(0, |bits, index| bits | 1 << index))
    }

    /// Whether a value of this type is in the set.
    #[must_use]
    pub fn contains(self, element_type: ElementType) -> bool {
        let number = matches!(
            element_type,
            ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128
        );
        ALIASES
            .iter()
            .enumerate()
            .any(|(index, (_, _, named))| match named {
                Some(named) => self.0 & 1 << index != 0 && *named == element_type,
                None => self.0 & 1 << index != 0 && number,
            })
    }

    /// The aliases, sorted by bytes.
    pub fn aliases(self) -> impl Iterator<Item = &'static str> {
        ALIASES
            .iter()
            .enumerate()
            .filter(move |(index, _)| self.0 & 1 << index != 0)
            .map(|(_, (alias, _, _))| *alias)
    }

    /// The ranks of its types in the order of values.
    pub fn ranks(self) -> impl Iterator<Item = u8> {
        let named = ALIASES
            .iter()
            .enumerate()
            .filter(move |(index, _)| self.0 & 1 << index != 0);
        // "number" stands for four types of one rank.
        named.map(|(_, (_, _, of))| rank_of(of.unwrap_or(ElementType::Double)))
    }

    /// Reads the operand of `$type`: an alias, a code, or a list of them.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<TypeSet, FilterError> {
        let RawBsonRef::Array(members) = operand else {
            return Ok(TypeSet(1 << one(operand)?));
        };
        let mut bits = 0;
        for (index, member) in members.into_iter().enumerate() {
            bits |= 1 << one(member?).map_err(|error| error.within(index))?;
        }
        if bits == 0 {
            return Err(FilterError::operand("$type needs at least one type"));
        }
        Ok(TypeSet(bits))
    }

    /// The operand in canonical form.
    pub(super) fn write(self) -> RawBson {
        let mut aliases: Vec<_> = self.aliases().map(|a| RawBson::String(a.into())).collect();
        match aliases.len() {
            1 => aliases.remove(0),
            _ => RawBson::Array(aliases.into_iter().collect()),
        }
    }
}

fn index_of_alias(alias: &str) -> Option<usize> {
    ALIASES.iter().position(|(name, _, _)| *name == alias)
}

fn one(operand: RawBsonRef<'_>) -> Result<usize, FilterError> {
    let index = match operand {
        RawBsonRef::String(alias) => index_of_alias(alias),
        _ => super::operand::integer(operand).and_then(|code| {
            ALIASES
                .iter()
                .position(|(_, known, named)| named.is_some() && i64::from(*known) == code)
        }),
    };
    index.ok_or_else(|| FilterError::operand("$type needs a type's alias or number"))
}
