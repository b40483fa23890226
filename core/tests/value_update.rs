//! Update operators, measured against a real MongoDB: equal documents byte for byte, or both refuse.

mod value_support;

use std::cmp::Ordering;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use freshet_core::update::{self, Reason, UpdateError};
use freshet_core::value::compare::{compare, equal, type_rank};
use freshet_core::value::ejson::{Mode, write_document};
use freshet_core::value::path::{ArrayLeaf, Leaf, Path, field};
use freshet_fixture::{Parts, fresh_database_name};
use mongodb::{Collection, Database};
use rand::RngExt;
use rand::rngs::StdRng;
use value_support::updates::{random_decimal, random_record, random_update};
use value_support::{NUMBERS, document, generator, pick};

/// What the tests' conditions of `$pull` need of a matcher: one path with `$gte`, `$in` or equality.
fn matches(filter: &RawDocument, document: &RawDocument) -> Result<bool, String> {
    let (path, operand) = filter.iter().next().expect("one path").expect("BSON");
    let operator = operand.as_document().and_then(|d| d.iter().next()?.ok());
    Ok(
        Path::new(path.as_str()).any(document, ArrayLeaf::Elements, |leaf| {
            let (Leaf::Value(value) | Leaf::Element(value)) = leaf else {
                return false;
            };
            match operator.map(|(name, operand)| (name.as_str(), operand)) {
                Some(("$gte", operand)) => {
                    type_rank(&operand) == type_rank(&value)
                        && compare(value, operand) != Ordering::Less
                }
                Some(("$in", RawBsonRef::Array(list))) => {
                    list.into_iter().flatten().any(|v| equal(v, value))
                }
                _ => equal(value, operand),
            }
        }),
    )
}

fn apply(document: &RawDocument, update: &RawDocument) -> Result<RawDocumentBuf, UpdateError> {
    update::parse(update)?.apply(document, 1_700_000_000_123, &matches)
}

fn show(document: &RawDocument) -> String {
    let mut text = Vec::new();
    write_document(document, Mode::Canonical, &mut text);
    String::from_utf8(text).expect("the text is UTF-8")
}

/// An update, why it is refused, and where.
const REFUSED: &[(&str, Reason, &str)] = &[
    ("{}", Reason::Malformed, ""),
    (r#"{"a":1}"#, Reason::Malformed, "/a"),
    (r#"{"$set":1}"#, Reason::Malformed, "/$set"),
    (
        r#"{"$setOnInsert":{"a":1}}"#,
        Reason::Unsupported,
        "/$setOnInsert",
    ),
    (r#"{"$set":{"a.$":1}}"#, Reason::Unsupported, "/$set/a.$"),
    (
        r#"{"$set":{"a.$[]":1}}"#,
        Reason::Unsupported,
        "/$set/a.$[]",
    ),
    (r#"{"$set":{"a..b":1}}"#, Reason::Malformed, "/$set/a..b"),
    (r#"{"$inc":{"a":"1"}}"#, Reason::Malformed, "/$inc/a"),
    (
        r#"{"$set":{"a":1},"$inc":{"a.b":1}}"#,
        Reason::PathConflict,
        "/$inc/a.b",
    ),
    (
        r#"{"$set":{"a":1},"$inc":{"a":1}}"#,
        Reason::PathConflict,
        "/$set/a",
    ),
    (
        r#"{"$set":{"a.b":1,"a-b":2,"a":1}}"#,
        Reason::PathConflict,
        "/$set/a.b",
    ),
    (
        r#"{"$rename":{"a":"b"},"$set":{"a":1}}"#,
        Reason::PathConflict,
        "/$set/a",
    ),
    (
        r#"{"$rename":{"a":"a.b"}}"#,
        Reason::Malformed,
        "/$rename/a",
    ),
    (
        r#"{"$push":{"a":{"$each":[1],"$foo":1}}}"#,
        Reason::Malformed,
        "/$push/a/$foo",
    ),
    (
        r#"{"$push":{"a":{"$each":1}}}"#,
        Reason::Malformed,
        "/$push/a/$each",
    ),
    (r#"{"$pop":{"a":2}}"#, Reason::Malformed, "/$pop/a"),
    (r#"{"$inc":{"s":1}}"#, Reason::NotApplicable, "/$inc/s"),
    (r#"{"$inc":{"l":1}}"#, Reason::NotApplicable, "/$inc/l"),
    (r#"{"$push":{"s":1}}"#, Reason::NotApplicable, "/$push/s"),
    (r#"{"$set":{"s.x":1}}"#, Reason::NotApplicable, "/$set/s.x"),
    (r#"{"$set":{"v.x":1}}"#, Reason::NotApplicable, "/$set/v.x"),
    (r#"{"$set":{"_id":2}}"#, Reason::Immutable, ""),
    (r#"{"$unset":{"_id":1}}"#, Reason::Immutable, ""),
    (
        r#"{"$set":{"v.9999999":1}}"#,
        Reason::NotApplicable,
        "/$set/v.9999999",
    ),
];

#[test]
fn refusals_name_their_reason_and_place() {
    for (update, reason, pointer) in REFUSED {
        let before = document(r#"{"_id":1,"s":"x","l":9223372036854775807,"v":[1]}"#);
        let error = apply(&before, &document(update)).expect_err(update);
        assert_eq!(
            (error.reason, error.pointer.as_str()),
            (*reason, *pointer),
            "{update}: {error}"
        );
    }
}

#[test]
fn the_current_date_is_the_one_given() {
    let after = apply(
        &document(r#"{"_id":1,"a":5}"#),
        &document(
            r#"{"$currentDate":{"a":true,"b":{"$type":"timestamp"},"c.d":{"$type":"date"}}}"#,
        ),
    );
    assert_eq!(
        show(&after.expect("applied")),
        r#"{"_id":{"$numberInt":"1"},"a":{"$date":{"$numberLong":"1700000000123"}},"b":{"$timestamp":{"t":1700000000,"i":1}},"c":{"d":{"$date":{"$numberLong":"1700000000123"}}}}"#
    );
}

#[test]
fn a_document_of_16_mib_does_not_grow() {
    let mut before = RawDocumentBuf::new();
    before.append(cstr!("_id"), 1);
    before.append(cstr!("s"), "x".repeat(16 * 1024 * 1024 - 40));
    let error = apply(
        &before,
        &document(r#"{"$set":{"another field":"with some text"}}"#),
    );
    assert_eq!(error.expect_err("refused").reason, Reason::TooLarge);
}

/// The document after the server's update, or its refusal.
async fn server(
    database: &Database,
    id: usize,
    update: &RawDocument,
) -> Result<RawDocumentBuf, String> {
    let mut query = RawDocumentBuf::new();
    query.append(cstr!("_id"), i32::try_from(id).expect("few documents"));
    let mut command = RawDocumentBuf::new();
    command.append(cstr!("findAndModify"), "updates");
    command.append(cstr!("query"), query);
    command.append(cstr!("update"), update.to_owned());
    command.append(cstr!("new"), true);
    let reply = database
        .run_raw_command(command)
        .await
        .map_err(|error| error.to_string())?;
    let reply = RawDocumentBuf::try_from(&reply).map_err(|error| error.to_string())?;
    match field(&reply, "value") {
        Some(RawBsonRef::Document(document)) => Ok(document.to_owned()),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn updates_do_what_mongodb_does() {
    const UPDATES: usize = 6000;
    let mongo = Parts::mongo()
        .await
        .expect("MongoDB is installed (infra/install)");
    let client = mongo.client().await.expect("MongoDB answers");
    let database = client.database(&fresh_database_name());
    let collection: Collection<RawDocumentBuf> = database.collection("updates");
    let mut rng = generator(7);
    let before: Vec<_> = (0..UPDATES).map(|id| random_record(&mut rng, id)).collect();
    collection.insert_many(&before).await.expect("inserted");
    let (mut applied, mut refused) = (0, 0);
    for (id, before) in before.iter().enumerate() {
        let text = random_update(&mut rng);
        // A name may have come twice.
        let Ok(update) = freshet_core::value::ejson::parse_document(text.as_bytes()) else {
            continue;
        };
        let theirs = server(&database, id, &update).await;
        match (apply(before, &update), theirs) {
            (Ok(ours), Ok(theirs)) => {
                applied += 1;
                let same = ours.as_bytes() == theirs.as_bytes();
                assert!(
                    same,
                    "{text}\nof   {}\nours {}\nis   {}",
                    show(before),
                    show(&ours),
                    show(&theirs)
                );
            }
            (Err(_), Err(_)) => refused += 1,
            (ours, theirs) => panic!(
                "{text}\nof   {}\nours {ours:?}\nis   {theirs:?}",
                show(before)
            ),
        }
    }
    assert!(
        applied > 3000 && refused > UPDATES / 10,
        "{applied} {refused}"
    );
    database.drop().await.expect("dropped");
}

#[tokio::test]
async fn decimals_add_and_multiply_as_mongodb_has_it() {
    const DOCUMENTS: usize = 60;
    let mongo = Parts::mongo()
        .await
        .expect("MongoDB is installed (infra/install)");
    let client = mongo.client().await.expect("MongoDB answers");
    let database = client.database(&fresh_database_name());
    let collection: Collection<RawDocumentBuf> = database.collection("updates");
    let mut rng = generator(8);
    for id in 0..DOCUMENTS {
        let numbers = |rng: &mut StdRng| -> String {
            let fields: Vec<_> = (0..100)
                .map(|at| {
                    let number = if rng.random_bool(0.9) {
                        random_decimal(rng)
                    } else {
                        pick(rng, NUMBERS).to_owned()
                    };
                    format!("\"n{at}\":{number}")
                })
                .collect();
            fields.join(",")
        };
        let before = document(&format!("{{\"_id\":{id},{}}}", numbers(&mut rng)));
        let operator = pick(&mut rng, &["$inc", "$mul"]);
        let update = document(&format!("{{\"{operator}\":{{{}}}}}", numbers(&mut rng)));
        collection.insert_one(&before).await.expect("inserted");
        let theirs = server(&database, id, &update).await;
        let Ok(ours) = apply(&before, &update) else {
            // Two 64-bit integers whose sum is none.
            assert!(theirs.is_err());
            continue;
        };
        let theirs = theirs.expect("applied");
        for (name, value) in ours.iter().flatten() {
            let name = name.as_str();
            let show =
                |document| field(document, name).map_or_else(String::new, |v| format!("{v:?}"));
            let operand = field(&update, operator)
                .and_then(RawBsonRef::as_document)
                .map(show);
            assert_eq!(
                format!("{value:?}"),
                show(&theirs),
                "{} {operator} {operand:?}",
                show(&before)
            );
        }
        assert_eq!(ours, theirs);
    }
    database.drop().await.expect("dropped");
}
