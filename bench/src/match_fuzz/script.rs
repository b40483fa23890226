//! Scripts: who reads, writes and delivers when.

use super::case::Op;
use super::pool::Choice;

/// Every write is matched at once, and whatever was touched is read again.
pub(super) fn prompt(writes: usize) -> Vec<Op> {
    let mut script = vec![Op::Refresh];
    for _ in 0..writes {
        script.extend([Op::Write, Op::Deliver(1), Op::Refresh]);
    }
    script
}

/// Undelivered events at most.
const LAG_WRITES_MAX: usize = 30;

/// Events come late and in batches, some of them twice; reads begin, are made and go out in between.
pub(super) fn lagging(choice: &mut Choice, writes: usize, queries: usize) -> Vec<Op> {
    let mut script = vec![Op::Refresh];
    let (mut written, mut lag) = (0, 0);
    // Reads under way.
    let mut open: Vec<usize> = Vec::new();
    while written < writes {
        if lag >= LAG_WRITES_MAX || lag > 0 && choice.percent(12) {
            let count = 1 + choice.below(lag);
            script.push(Op::Deliver(count));
            lag -= count;
            if choice.percent(20) {
                script.push(Op::Again(1 + choice.below(3)));
            }
        } else if choice.percent(60) {
            script.push(Op::Write);
            (written, lag) = (written + 1, lag + 1);
        } else if choice.percent(4) {
            script.push(Op::Refresh);
        }
        for _ in 0..choice.below(5) {
            reads(choice, queries, &mut open, &mut script);
        }
    }
    script.push(Op::Deliver(writes));
    script
}

/// Something about a read.
fn reads(choice: &mut Choice, queries: usize, open: &mut Vec<usize>, script: &mut Vec<Op>) {
    if open.is_empty() || open.len() < 12 && choice.percent(35) {
        let query = choice.below(queries.max(1));
        script.push(Op::Begin(query));
        open.push(query);
        return;
    }
    let at = choice.below(open.len());
    let query = open[at];
    match choice.below(20) {
        0..10 => script.push(Op::Read(query)),
        10..19 => {
            script.push(Op::Settle(query, choice.one(&[0, 0, 1, 2, 5, 20])));
            open.swap_remove(at);
        }
        _ => {
            script.push(Op::Abandon(query));
            open.swap_remove(at);
        }
    }
}
