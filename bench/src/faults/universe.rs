//! What is written and read: records in two collections, one with images in its change stream and one without, each
//! record in one of two groups; and the resources that show them.

use std::ops::Range;

use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::query::{CountQuery, Query, RecordRequest};
use freshet_core::value::id::RecordId;
use rand::RngExt;
use rand::rngs::StdRng;

use super::history::{History, Value};
use super::judge::{Facts, Number, Shown};

/// The database.
pub(super) const DATABASE: &str = "faults";
/// The collections, by number. The change stream has states before and after of the first only.
pub(super) const COLLECTIONS: [&str; 2] = ["pictured", "plain"];
/// The one with images.
pub(super) const PICTURED: usize = 0;
/// Records of a collection that writers write.
pub(super) const RECORDS: usize = 120;
/// The groups that they are in.
const GROUPS: u32 = 24;
/// A record beyond them that becomes too large for an event. It is in a group of its own, and read without its blob.
pub(super) const LARGE: Number = RECORDS;
/// Records beyond them that nobody writes: by them one sees whether anything is cached, in each part of a grid.
pub(super) const STILL: Range<Number> = RECORDS + 1..RECORDS + 5;
/// Records of a collection.
pub(super) const ALL: usize = STILL.end;
/// How many the ordered queries ask for.
const TOP: usize = 3;

/// A place in the universe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) collection: usize,
    pub(super) number: Number,
}

impl Place {
    /// The record's id.
    pub(super) fn id(self) -> String {
        format!("r{}", self.number)
    }

    /// The groups that it may be in: the one it begins in and the next.
    pub(super) fn groups(self) -> [u32; 2] {
        let home = match u32::try_from(self.number) {
            Ok(number) if self.number < RECORDS => number % GROUPS,
            // Groups of their own.
            _ => return [GROUPS + u32::try_from(self.number - RECORDS).unwrap_or(0); 2],
        };
        [home, (home + 1) % GROUPS]
    }

    /// Its own path.
    pub(super) fn path(self) -> String {
        format!("{}/{}", collection_path(self.collection), self.id())
    }
}

/// A collection's path.
pub(super) fn collection_path(collection: usize) -> String {
    format!("/v1/{DATABASE}/{}", COLLECTIONS[collection])
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Record(Place),
    Group {
        collection: usize,
        group: u32,
        top: Option<usize>,
    },
    Count {
        collection: usize,
        group: u32,
    },
}

impl Question {
    /// One of all, some more often than others.
    pub(super) fn any(random: &mut StdRng) -> Question {
        let collection = random.random_range(0..COLLECTIONS.len());
        let group = u32::try_from(skewed(random, GROUPS as usize)).unwrap_or(0);
        let top = Some(TOP);
        match random.random_range(0..100) {
            0..2 => Question::Record(Place {
                collection: PICTURED,
                number: LARGE,
            }),
            2..45 => {
                let number = skewed(random, RECORDS);
                Question::Record(Place { collection, number })
            }
            45..70 => Question::Group {
                collection,
                group,
                top: None,
            },
            70..88 => Question::Group {
                collection,
                group,
                top,
            },
            _ => Question::Count { collection, group },
        }
    }

    /// The canonical key.
    pub(super) fn key(&self) -> anyhow::Result<Key> {
        let parameter = |name: &str, text: String| (name.to_owned(), text);
        let namespace = |collection: usize| Namespace::new(DATABASE, COLLECTIONS[collection]);
        let filter = |group: u32| parameter("filter", format!("{{\"group\":{group}}}"));
        Ok(match *self {
            Question::Record(place) => {
                let id = RecordId::parse_segment(&place.id())?;
                let fields = match place.number {
                    LARGE => vec![parameter("fields", "group,v".into())],
                    _ => Vec::new(),
                };
                RecordRequest::parse(&namespace(place.collection)?, id, &fields)?.key()
            }
            Question::Group {
                collection,
                group,
                top,
            } => {
                let mut parameters = vec![filter(group)];
                if let Some(top) = top {
                    parameters.push(parameter("sort", "-v".into()));
                    parameters.push(parameter("limit", top.to_string()));
                }
                Query::parse(&namespace(collection)?, &parameters)?.key()
            }
            Question::Count { collection, group } => {
                CountQuery::parse(&namespace(collection)?, &[filter(group)])?.key()
            }
        })
    }

    /// The path that own writes touch (C11), and whether it is a record's.
    pub(super) fn scope(&self) -> (String, bool) {
        match self {
            Question::Record(place) => (place.path(), true),
            Question::Group { collection, .. } | Question::Count { collection, .. } => {
                (collection_path(*collection), false)
            }
        }
    }

    /// Which collection is asked.
    pub(super) fn collection(&self) -> usize {
        match self {
            Question::Record(place) => place.collection,
            Question::Group { collection, .. } | Question::Count { collection, .. } => *collection,
        }
    }

    /// The collection, and the numbers of the records that an answer could speak of.
    fn subjects(&self) -> (usize, Vec<Number>) {
        match *self {
            Question::Record(Place { collection, number }) => (collection, vec![number]),
            Question::Group {
                collection, group, ..
            }
            | Question::Count { collection, group } => {
                let members = (0..ALL).filter(|number| {
                    let place = Place {
                        collection,
                        number: *number,
                    };
                    place.groups().contains(&group)
                });
                (collection, members.collect())
            }
        }
    }

    /// What an answer's body says; `None` for a body that is no such answer.
    pub(super) fn read(&self, found: bool, body: &[u8]) -> Option<Shown> {
        if !found {
            return matches!(self, Question::Record(_)).then_some(Shown::Record(None));
        }
        let body: serde_json::Value = serde_json::from_slice(body).ok()?;
        Some(match *self {
            Question::Record(_) => Shown::Record(Some(value(&body)?)),
            Question::Count { group, .. } => Shown::Count {
                group,
                count: body["count"].as_u64()?,
            },
            Question::Group { group, top, .. } => {
                let item = |item| Some((number(item)?, value(item)?));
                let items: Option<Vec<_>> = body["items"].as_array()?.iter().map(item).collect();
                Shown::Group {
                    group,
                    items: items?,
                    top,
                }
            }
        })
    }
}

fn value(document: &serde_json::Value) -> Option<Value> {
    Some(Value {
        version: document["v"].as_u64()?,
        group: document["group"].as_u64()?.try_into().ok()?,
    })
}

fn number(document: &serde_json::Value) -> Option<Number> {
    document["_id"].as_str()?.strip_prefix('r')?.parse().ok()
}

/// Small numbers more often than large ones: a tenth of them gets almost half.
pub(super) fn skewed(random: &mut StdRng, count: usize) -> usize {
    let share: f64 = random.random();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 .. count
    let number = (share.powi(3) * count as f64) as usize;
    number.min(count - 1)
}

/// The histories of all records.
pub(super) struct Universe(Vec<Vec<History>>);

impl Universe {
    pub(super) fn new() -> Universe {
        let collection = || (0..ALL).map(|_| History::default()).collect();
        Universe(COLLECTIONS.iter().map(|_| collection()).collect())
    }

    /// The history of one record.
    pub(super) fn of(&self, place: Place) -> &History {
        &self.0[place.collection][place.number]
    }

    /// Every place of a collection.
    pub(super) fn places(collection: usize) -> impl Iterator<Item = Place> {
        (0..ALL).map(move |number| Place { collection, number })
    }

    /// What may have been true of all that an answer could speak of, at `since` or later.
    pub(super) fn facts(&self, question: &Question, since: u64) -> Facts {
        let (collection, numbers) = question.subjects();
        let spans = |number| self.of(Place { collection, number }).spans(since);
        numbers
            .into_iter()
            .map(|number| (number, spans(number)))
            .collect()
    }
}
