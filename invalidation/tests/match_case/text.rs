//! A case as one JSON text: documents in canonical Extended JSON, answers as the ids of what was found.

use std::collections::BTreeMap;
use std::rc::Rc;

use bson::{RawBson, RawDocument, RawDocumentBuf};
use freshet_core::value::ejson::{self, Mode};
use freshet_invalidation::Images;
use serde_json::{Value, json};

use super::{Asked, Case, Found, History, Op, Watching, What, Written, id_of};

/// Writes a case.
pub fn write(case: &Case) -> Value {
    json!({
        "images": match case.images { Images::Both => "both", Images::AfterOnly => "after_only" },
        "members_max": case.members_max,
        "before": case.history.before.iter().map(|one| document(one)).collect::<Vec<_>>(),
        "writes": case.history.writes.iter().map(written).collect::<Vec<_>>(),
        "queries": case.queries.iter().map(watching).collect::<Vec<_>>(),
        "script": case.script.iter().map(op).collect::<Vec<_>>(),
    })
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
    json!({ "id": value(&written.id), "before": optional(&written.before), "after": optional(&written.after) })
}

fn watching(watching: &Watching) -> Value {
    let found = |found: &Found| match found {
        Found::Records(all) => {
            let ids = all.iter().map(|one| value(&id_of(one).into()));
            Value::Array(ids.collect())
        }
        Found::Count(count) => json!(count),
        Found::Refused => json!("refused"),
    };
    let mut object = json!({
        "filter": document(&watching.asked.filter),
        "found": watching.found.iter().map(found).collect::<Vec<_>>(),
    });
    if let What::Page {
        sort,
        skip,
        limit,
        fields,
        ids,
    } = &watching.asked.what
    {
        object["page"] =
            json!({ "sort": sort, "skip": skip, "limit": limit, "fields": fields, "ids": ids });
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
    let before = text["before"].as_array()?.iter().map(parse_document);
    let history = History {
        before: before.collect::<Option<_>>()?,
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

fn parse_document(text: &Value) -> Option<Rc<RawDocumentBuf>> {
    ejson::parse_document(text.to_string().as_bytes())
        .ok()
        .map(Rc::new)
}

fn parse_written(text: &Value) -> Option<Written> {
    let optional = |text: &Value| match text {
        Value::Null => Some(None),
        text => parse_document(text).map(Some),
    };
    Some(Written {
        id: ejson::parse_value(text["id"].to_string().as_bytes()).ok()?,
        before: optional(&text["before"])?,
        after: optional(&text["after"])?,
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
            Some(after) => drop(state.insert(id, after.clone())),
            None => drop(state.remove(&id)),
        }
        states.push(state.clone());
    }
    states
}

fn parse_watching(text: &Value, states: &[State]) -> Option<Watching> {
    let page = &text["page"];
    let what = match page {
        Value::Null => What::Count,
        page => What::Page {
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
        _ => Some(Found::Refused),
    };
    let all = text["found"].as_array()?.iter().zip(states);
    let asked = Asked {
        filter: (*parse_document(&text["filter"])?).clone(),
        what,
    };
    let found = all.map(found).collect::<Option<_>>()?;
    Some(Watching::new(asked, Rc::new(found)))
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
