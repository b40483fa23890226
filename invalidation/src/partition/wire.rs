//! The messages, as BSON documents with short names. What cannot be read is an error, and its reader treats it as lost.

use bson::raw::{CString, cstr};
use bson::spec::BinarySubtype;
use bson::{RawArrayBuf, RawBinaryRef, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use freshet_core::value::sort::SortKey;

use crate::matcher::{End, LOOK_AHEAD, Window};
use crate::registry::Images;

/// A message that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message that is none: no {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Reads fields.
pub(super) struct Fields<'a>(&'a RawDocument);

impl<'a> Fields<'a> {
    pub(super) fn of(body: &'a [u8]) -> Result<Fields<'a>, Malformed> {
        RawDocument::from_bytes(body)
            .map(Fields)
            .map_err(|_| Malformed("document"))
    }

    pub(super) fn get(&self, name: &'static str) -> Option<RawBsonRef<'a>> {
        self.0.get(name).ok().flatten()
    }

    fn need(&self, name: &'static str) -> Result<RawBsonRef<'a>, Malformed> {
        self.get(name).ok_or(Malformed(name))
    }

    pub(super) fn number(&self, name: &'static str) -> Result<u64, Malformed> {
        self.number_if_any(name).ok_or(Malformed(name))
    }

    pub(super) fn number_if_any(&self, name: &'static str) -> Option<u64> {
        self.get(name)?.as_i64().map(i64::cast_unsigned)
    }

    pub(super) fn small(&self, name: &'static str) -> Result<u32, Malformed> {
        u32::try_from(self.number(name)?).map_err(|_| Malformed(name))
    }

    pub(super) fn text(&self, name: &'static str) -> Result<&'a str, Malformed> {
        self.need(name)?.as_str().ok_or(Malformed(name))
    }

    pub(super) fn flag(&self, name: &'static str) -> bool {
        self.get(name).and_then(RawBsonRef::as_bool) == Some(true)
    }

    pub(super) fn bytes_if_any(&self, name: &'static str) -> Option<Vec<u8>> {
        match self.get(name)? {
            RawBsonRef::Binary(binary) => Some(binary.bytes.to_vec()),
            _ => None,
        }
    }

    pub(super) fn items_if_any(
        &self,
        name: &'static str,
    ) -> Result<Option<Vec<RawBsonRef<'a>>>, Malformed> {
        match self.get(name) {
            None | Some(RawBsonRef::Null) => Ok(None),
            Some(RawBsonRef::Array(items)) => {
                let items: Result<_, _> = items.into_iter().collect();
                items.map(Some).map_err(|_| Malformed(name))
            }
            Some(_) => Err(Malformed(name)),
        }
    }

    pub(super) fn items(&self, name: &'static str) -> Result<Vec<RawBsonRef<'a>>, Malformed> {
        self.items_if_any(name)?.ok_or(Malformed(name))
    }

    pub(super) fn namespace(&self, name: &'static str) -> Result<Namespace, Malformed> {
        let text = self.text(name)?;
        let named = text.split_once('.');
        named
            .and_then(|(db, collection)| Namespace::new(db, collection).ok())
            .ok_or(Malformed(name))
    }

    pub(super) fn position(&self, name: &'static str) -> Result<Position, Malformed> {
        self.number(name).map(Position)
    }
}

pub(super) fn document(item: RawBsonRef<'_>) -> Result<Fields<'_>, Malformed> {
    item.as_document().map(Fields).ok_or(Malformed("document"))
}

/// Writes fields.
#[derive(Default)]
pub(super) struct Message(RawDocumentBuf);

impl Message {
    pub(super) fn with(mut self, name: &str, value: impl Into<RawBson>) -> Message {
        // The names are ours: none has a zero byte.
        if let Ok(name) = CString::try_from(name) {
            self.0.append(name, value.into());
        }
        self
    }

    pub(super) fn number(self, name: &str, value: u64) -> Message {
        self.with(name, value.cast_signed())
    }

    pub(super) fn number_if_any(self, name: &str, value: Option<u64>) -> Message {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }

    pub(super) fn bytes_if_any(mut self, name: &str, bytes: Option<&[u8]>) -> Message {
        if let (Some(bytes), Ok(name)) = (bytes, CString::try_from(name)) {
            let binary = RawBinaryRef {
                subtype: BinarySubtype::Generic,
                bytes,
            };
            self.0.append(name, RawBsonRef::Binary(binary));
        }
        self
    }

    pub(super) fn into_document(self) -> RawDocumentBuf {
        self.0
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

pub(super) fn keys(keys: &[Key]) -> RawArrayBuf {
    keys.iter().map(|key| key.as_str().to_owned()).collect()
}

pub(super) fn read_keys(items: Vec<RawBsonRef<'_>>) -> Result<Vec<Key>, Malformed> {
    let keys = items.into_iter().map(|item| item.as_str().map(Key::from));
    keys.collect::<Option<_>>().ok_or(Malformed("key"))
}

// --- Changes ---------------------------------------------------------------------------------------------

/// Appends an event as a document of an array.
pub(super) fn event(event: &ChangeEvent) -> RawDocumentBuf {
    let mut written = Message::default()
        .with("n", event.namespace.to_string())
        .number("p", event.position.0);
    if let Change::Record { id, before, after } = &event.change {
        written = written.with("i", id.clone());
        append_image(&mut written.0, &BEFORE, before);
        append_image(&mut written.0, &AFTER, after);
    }
    written.0
}

/// The fields of an image: what is known of it, and the state.
type ImageFields = (&'static bson::raw::CStr, &'static bson::raw::CStr);
const BEFORE: ImageFields = (cstr!("bk"), cstr!("b"));
const AFTER: ImageFields = (cstr!("ak"), cstr!("a"));

fn append_image(to: &mut RawDocumentBuf, (kind, state): &ImageFields, image: &Image) {
    let (known, document) = match image {
        Image::Absent => ("absent", None),
        Image::Known(document) => ("known", Some(document)),
        Image::Later(document) => ("later", document.as_ref()),
        Image::Unknown => ("unknown", None),
    };
    to.append(*kind, known);
    if let Some(document) = document {
        to.append(*state, RawBsonRef::Document(document));
    }
}

pub(super) fn read_event(item: RawBsonRef<'_>) -> Result<ChangeEvent, Malformed> {
    let fields = document(item)?;
    let change = match fields.get("i") {
        None => Change::Collection,
        Some(id) => Change::Record {
            id: id.into(),
            before: read_image(&fields, "bk", "b")?,
            after: read_image(&fields, "ak", "a")?,
        },
    };
    Ok(ChangeEvent {
        namespace: fields.namespace("n")?,
        position: fields.position("p")?,
        change,
    })
}

fn read_image(
    fields: &Fields<'_>,
    kind: &'static str,
    state: &'static str,
) -> Result<Image, Malformed> {
    let document = fields.get(state).and_then(RawBsonRef::as_document);
    let document = document.map(RawDocument::to_owned);
    match (fields.text(kind)?, document) {
        ("absent", _) => Ok(Image::Absent),
        ("known", Some(document)) => Ok(Image::Known(document)),
        ("later", document) => Ok(Image::Later(document)),
        ("unknown", _) => Ok(Image::Unknown),
        _ => Err(Malformed(state)),
    }
}

// --- What an answer shows --------------------------------------------------------------------------------

pub(super) fn images(images: Images) -> &'static str {
    match images {
        Images::Both => "both",
        Images::AfterOnly => "after",
    }
}

pub(super) fn read_images(text: &str) -> Images {
    match text {
        "both" => Images::Both,
        _ => Images::AfterOnly,
    }
}

fn sort_key(key: &SortKey) -> RawArrayBuf {
    let values = key.values().into_iter();
    values.map(RawBson::from).collect()
}

fn read_sort_key(item: RawBsonRef<'_>) -> Result<SortKey, Malformed> {
    let values: Result<Vec<_>, _> = match item {
        RawBsonRef::Array(values) => values.into_iter().collect(),
        _ => return Err(Malformed("sort key")),
    };
    let values = values.map_err(|_| Malformed("sort key"))?;
    SortKey::of(&values).ok_or(Malformed("sort key"))
}

pub(super) fn window(window: &Window) -> RawDocumentBuf {
    let mut written = Message::default();
    if let Some(first) = &window.first {
        written = written.with("f", sort_key(first));
    }
    if let Some(end) = &window.end {
        let beyond = end.beyond.iter().flatten();
        let beyond: RawArrayBuf = beyond.map(|digest| digest.cast_signed()).collect();
        written = written.with("l", sort_key(&end.last)).with("b", beyond);
    }
    let places: RawArrayBuf = window.places.iter().map(sort_key).collect();
    written.with("p", places).0
}

pub(super) fn read_window(item: RawBsonRef<'_>) -> Result<Window, Malformed> {
    let fields = document(item)?;
    let end = match fields.get("l") {
        None => None,
        Some(last) => {
            let mut beyond = [None; LOOK_AHEAD];
            for (place, digest) in beyond.iter_mut().zip(fields.items("b")?) {
                *place = digest.as_i64().map(i64::cast_unsigned);
            }
            let last = read_sort_key(last)?;
            Some(End { last, beyond })
        }
    };
    let places = fields.items("p")?.into_iter().map(read_sort_key);
    Ok(Window {
        first: fields.get("f").map(read_sort_key).transpose()?,
        end,
        places: places.collect::<Result<_, _>>()?,
    })
}

/// Of each join its local values; null: not known.
pub(super) fn joined(joined: &[Option<Vec<RawBson>>]) -> RawArrayBuf {
    let value = |values: &Option<Vec<RawBson>>| match values {
        None => RawBson::Null,
        Some(values) => RawBson::Array(values.iter().cloned().collect()),
    };
    joined.iter().map(value).collect()
}

pub(super) fn read_joined(
    items: Vec<RawBsonRef<'_>>,
) -> Result<Vec<Option<Vec<RawBson>>>, Malformed> {
    let read = |item| match item {
        RawBsonRef::Null => Ok(None),
        RawBsonRef::Array(values) => {
            let values = values.into_iter().map(|value| value.map(RawBson::from));
            let values: Result<Vec<_>, _> = values.collect();
            values.map(Some).map_err(|_| Malformed("joined"))
        }
        _ => Err(Malformed("joined")),
    };
    items.into_iter().map(read).collect()
}
