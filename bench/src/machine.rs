//! What machine a figure was taken on: committed beside every result, since a number without its machine says little.

use serde::Serialize;

/// The machine, as far as it matters to a figure.
#[derive(Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
}

impl Machine {
    /// Reads it from `/proc`; unknown parts are empty.
    pub(crate) fn read() -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .and_then(|rest| rest.split_once(':'))
            .map(|(_, name)| name.trim().to_owned())
            .unwrap_or_default();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel: String = release.chars().take_while(|c| *c != '-').collect();
        Machine {
            cpu,
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: kernel.trim().to_owned(),
        }
    }
}
