//! Processor time, from `/proc`.

use anyhow::Context;

/// Clock ticks of the kernel's accounts per second: 100 on every Linux of today (`getconf CLK_TCK`).
const TICKS_PER_S: f64 = 100.0;

/// Seconds of processor time that a process has used so far, in user and kernel mode.
pub(super) fn seconds(process: &str) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // After the name, which may have anything in it: the state is the third field, utime the fourteenth.
    let (_, rest) = stat.rsplit_once(')').context("no name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| -> anyhow::Result<f64> {
        Ok(fields.get(at).context("too few fields")?.parse()?)
    };
    Ok((ticks(11)? + ticks(12)?) / TICKS_PER_S)
}
