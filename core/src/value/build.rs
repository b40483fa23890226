//! Writes BSON bytes in one pass: a container's length is filled in when it ends.
//!
//! Field names are the caller's duty: none may hold a NUL (the BSON specification, `cstring`).

use std::fmt::Write as _;

use bson::oid::ObjectId;
use bson::spec::{BinarySubtype, ElementType};
use bson::{RawBinaryRef, RawBsonRef, RawDbPointerRef, RawDocument, RawDocumentBuf, cstr};

use super::number::StackText;

/// The largest document, in bytes (MongoDB's limit).
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Where an unfinished container, or an element's type, stands in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(usize);

/// Bytes of BSON that grow.
#[derive(Debug, Default)]
pub struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Builder {
        Builder::default()
    }

    /// With room for so many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Builder {
        Builder {
            bytes: Vec::with_capacity(bytes),
        }
    }

    /// Bytes so far.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a size, not a collection
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Begins a document or array body.
    pub fn begin(&mut self) -> Place {
        let place = Place(self.bytes.len());
        self.bytes.extend_from_slice(&[0; 4]);
        place
    }

    /// Ends the innermost body.
    pub fn end(&mut self, place: Place) {
        self.bytes.push(0);
        self.close(place);
    }

    /// Fills in a length that counts itself.
    fn close(&mut self, place: Place) {
        let len = u32::try_from(self.bytes.len() - place.0).unwrap_or(u32::MAX);
        self.bytes[place.0..place.0 + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// An element's type and name; the type may be set again with [`Builder::set_type`].
    pub fn name(&mut self, kind: ElementType, name: &str) -> Place {
        let place = Place(self.bytes.len());
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        place
    }

    /// The same for an array's element.
    pub fn index(&mut self, kind: ElementType, index: usize) -> Place {
        let mut text = StackText::<20>::new();
        // 20 digits hold every index.
        let _ = write!(text, "{index}");
        self.name(kind, text.as_str())
    }

    /// Sets the type of an element begun with [`Builder::name`].
    pub fn set_type(&mut self, place: Place, kind: ElementType) {
        self.bytes[place.0] = kind as u8;
    }

    /// Takes off everything from `len` on.
    pub fn split_off(&mut self, len: usize) -> Vec<u8> {
        self.bytes.split_off(len)
    }

    /// Raw bytes of a value.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A length-prefixed string value.
    pub fn put_str(&mut self, text: &str) {
        let len = u32::try_from(text.len() + 1).unwrap_or(u32::MAX);
        self.put(&len.to_le_bytes());
        self.put(text.as_bytes());
        self.bytes.push(0);
    }

    /// A NUL-terminated string value.
    pub fn put_cstr(&mut self, text: &str) {
        self.put(text.as_bytes());
        self.bytes.push(0);
    }

    /// A binary value.
    pub fn put_binary(&mut self, binary: RawBinaryRef<'_>) {
        let len = u32::try_from(binary.bytes.len()).unwrap_or(u32::MAX);
        // The old subtype repeats the length inside.
        if binary.subtype == BinarySubtype::BinaryOld {
            self.put(&len.saturating_add(4).to_le_bytes());
            self.bytes.push(u8::from(binary.subtype));
        } else {
            self.bytes.reserve(binary.bytes.len() + 5);
        }
        self.put(&len.to_le_bytes());
        if binary.subtype != BinarySubtype::BinaryOld {
            self.bytes.push(u8::from(binary.subtype));
        }
        self.put(binary.bytes);
    }

    /// Code with its scope.
    pub fn put_code_with_scope(&mut self, code: &str, scope: &[u8]) {
        let place = self.begin();
        self.put_str(code);
        self.put(scope);
        self.close(place);
    }

    /// An element.
    pub fn append(&mut self, name: &str, value: RawBsonRef<'_>) {
        self.name(value.element_type(), name);
        self.put_value(value);
    }

    /// An array's element.
    pub fn push(&mut self, index: usize, value: RawBsonRef<'_>) {
        self.index(value.element_type(), index);
        self.put_value(value);
    }

    /// A value without type and name.
    pub fn put_value(&mut self, value: RawBsonRef<'_>) {
        use RawBsonRef as V;
        match value {
            V::Double(n) => self.put(&n.to_le_bytes()),
            V::String(s) | V::JavaScriptCode(s) | V::Symbol(s) => self.put_str(s),
            V::Array(a) => self.put(a.as_bytes()),
            V::Document(d) => self.put(d.as_bytes()),
            V::Boolean(b) => self.put(&[u8::from(b)]),
            V::RegularExpression(r) => {
                self.put_cstr(r.pattern.as_str());
                self.put_cstr(r.options.as_str());
            }
            V::JavaScriptCodeWithScope(c) => self.put_code_with_scope(c.code, c.scope.as_bytes()),
            V::Int32(n) => self.put(&n.to_le_bytes()),
            V::Int64(n) => self.put(&n.to_le_bytes()),
            V::Timestamp(t) => {
                self.put(&t.increment.to_le_bytes());
                self.put(&t.time.to_le_bytes());
            }
            V::Binary(b) => self.put_binary(b),
            V::ObjectId(id) => self.put(&id.bytes()),
            V::DateTime(d) => self.put(&d.timestamp_millis().to_le_bytes()),
            V::Decimal128(d) => self.put(&d.bytes()),
            V::DbPointer(p) => {
                let (namespace, id) = db_pointer_parts(p);
                self.put_str(&namespace);
                self.put(&id.bytes());
            }
            V::Null | V::Undefined | V::MinKey | V::MaxKey => {}
        }
    }

    /// The bytes written.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as a document; what was begun has been ended.
    ///
    /// # Errors
    /// The bytes are not one whole document.
    pub fn into_document(self) -> Result<RawDocumentBuf, bson::error::Error> {
        RawDocumentBuf::from_bytes(self.bytes)
    }
}

/// Namespace and id, which the `bson` crate does not show: read from the bytes it writes.
pub(crate) fn db_pointer_parts(pointer: RawDbPointerRef<'_>) -> (String, ObjectId) {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!(""), RawBsonRef::DbPointer(pointer));
    // int32 length, type, empty name, int32 length, text, NUL, twelve bytes, NUL.
    let bytes = document.as_bytes();
    let end = bytes.len() - 1;
    let mut id = [0; 12];
    id.copy_from_slice(&bytes[end - 12..end]);
    let text = String::from_utf8_lossy(&bytes[10..end - 13]).into_owned();
    (text, ObjectId::from_bytes(id))
}

/// An array's body, as the document that it is in BSON.
pub(crate) fn array_as_document(array: &bson::RawArray) -> &RawDocument {
    // Infallible: an array was checked as a document when it was read.
    RawDocument::from_bytes(array.as_bytes()).unwrap_or_else(|_| empty())
}

/// `{}`.
pub(crate) fn empty() -> &'static RawDocument {
    static EMPTY: [u8; 5] = [5, 0, 0, 0, 0];
    RawDocument::from_bytes(&EMPTY).unwrap_or_else(|_| unreachable!("five bytes make a document"))
}
