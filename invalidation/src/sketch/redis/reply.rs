//! What the snapshot function replies, put together: the reports of all processes, the filters of all collections.

use freshet_core::sketch::counting::{bits_for, unite};

use super::call::{bytes, integer, items, text};
use super::{malformed, position};
use crate::sketch::port::{Report, SketchError};

/// The least watermark and the greatest ages of all processes. What another process has not purged is
/// older than its last report by as much as that report is old, so its Δ_inv grows with it.
pub(super) fn combine(members: &[redis::Value], own: &str) -> Result<Option<Report>, SketchError> {
    let mut combined: Option<Report> = None;
    for member in members {
        let [id, watermark, age_ms, silent_ms, invalidation_ms] = items(member)? else {
            return Err(malformed("member"));
        };
        let silent_ms = if text(id)? == own {
            0
        } else {
            integer(silent_ms)?
        };
        let invalidation = integer(invalidation_ms)?.saturating_add(silent_ms);
        let one = Report {
            watermark: position(watermark)?,
            age_ms: u64::try_from(integer(age_ms)?).unwrap_or(0),
            invalidation_ms: u32::try_from(invalidation).unwrap_or(u32::MAX),
        };
        combined = Some(match combined {
            None => one,
            Some(all) => Report {
                watermark: all.watermark.min(one.watermark),
                age_ms: all.age_ms.max(one.age_ms),
                invalidation_ms: all.invalidation_ms.max(one.invalidation_ms),
            },
        });
    }
    Ok(combined)
}

/// Who has reported.
pub(super) fn names(members: &[redis::Value]) -> Result<Vec<String>, SketchError> {
    let name = |member| match items(member)? {
        [name, ..] => text(name),
        [] => Err(malformed("member")),
    };
    members.iter().map(name).collect()
}

/// The filters of some collections, united.
pub(super) struct Filters {
    pub(super) m: u32,
    pub(super) bits: Vec<u8>,
    pub(super) stale_keys: usize,
    pub(super) names: Vec<Vec<u8>>,
}

pub(super) fn union(parts: &[redis::Value]) -> Result<Filters, SketchError> {
    let mut filters = Vec::with_capacity(parts.len());
    let mut names = Vec::with_capacity(parts.len());
    let (mut into_m, mut stale_keys) = (bits_for(0), 0);
    for part in parts {
        let [m, stale, bits, name] = items(part)? else {
            return Err(malformed("filter"));
        };
        names.push(bytes(name)?);
        let m = u32::try_from(integer(m)?).map_err(|_| malformed("m"))?;
        into_m = into_m.max(m);
        stale_keys += usize::try_from(integer(stale)?).map_err(|_| malformed("count"))?;
        filters.push((m, bytes(bits)?));
    }
    let mut bits = vec![0; into_m as usize / 8];
    for (m, part) in &mut filters {
        // A string is as long as its last byte that was ever set.
        part.resize(*m as usize / 8, 0);
        unite(&mut bits, into_m, part, *m);
    }
    Ok(Filters {
        m: into_m,
        bits,
        stale_keys,
        names,
    })
}
