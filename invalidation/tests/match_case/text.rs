//! A case as one JSON text: documents in canonical Extended JSON, answers as the ids of what was found.

use std::collections::BTreeMap;
use std::rc::Rc;

use bson::{RawBson, RawDocument, RawDocumentBuf};
use freshet_core::value::ejson::{self, Mode};
use freshet_invalidation::Images;
use serde_json::{Value, json};

use super::{Asked, Case, Computed, Found, History, Of, Op, Watching, What, Written, id_of};

/// Writes a case.
pub fn write(case: &Case) -> Value {
    let mut text = json!({
        "images": match case.images { Images::Both => "both", Images::AfterOnly => "after_only" },
        "members_max": case.members_max,
        "before": documents(&case.history.before),
        "writes": case.history.writes.iter().map(written).collect::<Vec<_>>(),
        "queries": case.queries.iter().map(watching).collect::<Vec<_>>(),
        "script": case.script.iter().map(op).collect::<Vec<_>>(),
    });
    if !case.history.others.is_empty() {
        text["others"] = documents(&case.history.others);
    }
    text
}

fn documents<D: std::ops::Deref<Target = RawDocumentBuf>>(all: &[D]) -> Value {
    all.iter().map(|one| document(one)).collect()
}

fn document(document: &RawDocument) -> Value {
    let mut text = Vec::new();
    ejson::write_document(document, Mode::Canonical, &mut text);
    serde_json::from_slice(&text).expect("Extended JSON is JSON")
}

fn value(value: &RawBson) -> Value {
    let mut text = Vec::new();
    ejson::write_value(value.as_raw_bson_ref(), Mode::Canonical, &mut text);
    serde_json::from_slice(&text).expect("Extended JSON is JSON")
}

fn written(written: &Written) -> Value {
    let optional = |one: &Option<Rc<RawDocumentBuf>>| one.as_ref().map(|one| document(one));
    let mut text = json!({ "id": value(&written.id), "before": optional(&written.before), "after": optional(&written.after) });
    if written.of == Of::Others {
        text["of"] = json!(Of::Others.name());
    }
    text
}

fn watching(watching: &Watching) -> Value {
    let found = |found: &Found| match found {
        Found::Records(all) => {
            let ids = all.iter().map(|one| value(&id_of(one).into()));
            Value::Array(ids.collect())
        }
        Found::Count(count) => json!(count),
        Found::Computed(computed) => json!({
            "documents": computed.documents.iter().map(|one| document(one)).collect::<Vec<_>>(),
            "joined": computed.joined.iter().map(|one| one.as_ref().map(|all| all.iter().map(value).collect::<Vec<_>>())).collect::<Vec<_>>(),
            "renewal": computed.renewal.as_ref().map(|one| document(one)),
        }),
        Found::Refused => json!("refused"),
    };
    let mut object = json!({
        "filter": document(&watching.asked.filter),
        "found": watching.found.iter().map(found).collect::<Vec<_>>(),
    });
    match &watching.asked.what {
        What::Page {
            sort,
            skip,
            limit,
            fields,
            ids,
        } => {
            object["page"] =
                json!({ "sort": sort, "skip": skip, "limit": limit, "fields": fields, "ids": ids });
        }
        What::Aggregate { stages } => {
            object["pipeline"] = stages.iter().map(|stage| document(stage)).collect();
        }
        What::Count => {}
    }
    object
}

fn op(op: &Op) -> Value {
    match op {
        Op::Write => json!(["write"]),
        Op::Deliver(count) => json!(["deliver", count]),
        Op::Again(count) => json!(["again", count]),
        Op::Begin(query) => json!(["begin", query]),
        Op::Read(query) => json!(["read", query]),
        Op::Settle(query, back) => json!(["settle", query, back]),
        Op::Abandon(query) => json!(["abandon", query]),
        Op::Refresh => json!(["refresh"]),
    }
}

/// Reads a case; `None`: it is none.
pub fn parse(text: &Value) -> Option<Case> {
    let shared = |documents: &Value| Some(parse_documents(documents)?.map(Rc::new).collect());
    let history = History {
        before: shared(&text["before"])?,
        others: match &text["others"] {
            Value::Null => Vec::new(),
            others => shared(others)?,
        },
        writes: text["writes"]
            .as_array()?
            .iter()
            .map(parse_written)
            .collect::<Option<_>>()?,
    };
    let states = states(&history);
    let queries = text["queries"].as_array()?.iter();
    Some(Case {
        images: match text["images"].as_str()? {
            "both" => Images::Both,
            _ => Images::AfterOnly,
        },
        members_max: number(&text["members_max"])?,
        queries: queries
            .map(|one| parse_watching(one, &states))
            .collect::<Option<_>>()?,
        script: text["script"]
            .as_array()?
            .iter()
            .map(parse_op)
            .collect::<Option<_>>()?,
        history,
    })
}

fn parse_document(text: &Value) -> Option<RawDocumentBuf> {
    ejson::parse_document(text.to_string().as_bytes()).ok()
}

fn parse_documents(text: &Value) -> Option<std::vec::IntoIter<RawDocumentBuf>> {
    let all = text.as_array()?.iter().map(parse_document);
    Some(all.collect::<Option<Vec<_>>>()?.into_iter())
}

fn parse_value(text: &Value) -> Option<RawBson> {
    ejson::parse_value(text.to_string().as_bytes()).ok()
}

/// What may be missing.
fn parse_optional<T>(text: &Value, parse: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    match text {
        Value::Null => Some(None),
        text => parse(text).map(Some),
    }
}

fn parse_written(text: &Value) -> Option<Written> {
    let shared = |text: &Value| parse_document(text).map(Rc::new);
    Some(Written {
        of: match text["of"].is_null() {
            true => Of::Records,
            false => Of::Others,
        },
        id: parse_value(&text["id"])?,
        before: parse_optional(&text["before"], shared)?,
        after: parse_optional(&text["after"], shared)?,
        images: None,
    })
}

/// The records by the text of their ids.
type State = BTreeMap<String, Rc<RawDocumentBuf>>;

fn states(history: &History) -> Vec<State> {
    let name = |one: &Rc<RawDocumentBuf>| (value(&id_of(one).into()).to_string(), one.clone());
    let mut state: State = history.before.iter().map(name).collect();
    let mut states = vec![state.clone()];
    for written in &history.writes {
        let id = value(&written.id).to_string();
        match &written.after {
            _ if written.of == Of::Others => {}
            Some(after) => drop(state.insert(id, after.clone())),
            None => drop(state.remove(&id)),
        }
        states.push(state.clone());
    }
    states
}

fn parse_watching(text: &Value, states: &[State]) -> Option<Watching> {
    let what = match (&text["page"], &text["pipeline"]) {
        (Value::Null, Value::Null) => What::Count,
        (Value::Null, stages) => What::Aggregate {
            stages: parse_documents(stages)?.collect(),
        },
        (page, _) => What::Page {
            sort: page["sort"].as_str()?.to_owned(),
            skip: u32::try_from(page["skip"].as_u64()?).ok()?,
            limit: u32::try_from(page["limit"].as_u64()?).ok()?,
            fields: page["fields"].as_str()?.to_owned(),
            ids: page["ids"].as_bool()?,
        },
    };
    let found = |(found, state): (&Value, &State)| match found {
        Value::Array(ids) => {
            let records = ids.iter().map(|id| state.get(&id.to_string()).cloned());
            Some(Found::Records(Rc::new(records.collect::<Option<_>>()?)))
        }
        Value::Number(count) => count.as_u64().map(Found::Count),
        Value::Object(_) => parse_computed(found).map(|one| Found::Computed(Rc::new(one))),
        _ => Some(Found::Refused),
    };
    let all = text["found"].as_array()?.iter().zip(states);
    let asked = Asked {
        filter: parse_document(&text["filter"])?,
        what,
    };
    let found = all.map(found).collect::<Option<_>>()?;
    Some(Watching::new(asked, Rc::new(found)))
}

fn parse_computed(text: &Value) -> Option<Computed> {
    let values = |text: &Value| text.as_array()?.iter().map(parse_value).collect();
    let joined = text["joined"].as_array()?.iter();
    Some(Computed {
        documents: parse_documents(&text["documents"])?.collect(),
        joined: joined
            .map(|one| parse_optional(one, values))
            .collect::<Option<_>>()?,
        renewal: parse_optional(&text["renewal"], parse_document)?,
    })
}

fn parse_op(text: &Value) -> Option<Op> {
    let first = || number(&text[1]);
    Some(match text[0].as_str()? {
        "write" => Op::Write,
        "deliver" => Op::Deliver(first()?),
        "again" => Op::Again(first()?),
        "begin" => Op::Begin(first()?),
        "read" => Op::Read(first()?),
        "settle" => Op::Settle(first()?, number(&text[2])?),
        "abandon" => Op::Abandon(first()?),
        "refresh" => Op::Refresh,
        _ => return None,
    })
}

fn number(text: &Value) -> Option<usize> {
    usize::try_from(text.as_u64()?).ok()
}
