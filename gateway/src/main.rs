//! `freshet`: command line → settings → application → serve → drain. Nothing is decided here.

use std::process::ExitCode;

use clap::Parser;
use freshet_gateway::cli::{Cli, Command};
use freshet_gateway::command;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return command::failed(&anyhow::Error::new(error)),
    };
    let ended = runtime.block_on(async {
        match cli.command {
            Command::Dev(dev) => command::dev::run(dev).await,
            Command::Serve(configured) => command::serve::run(configured).await,
            Command::Worker(worker) => command::worker::run(worker).await,
            Command::Check(configured) => command::check::run(&configured),
            Command::Settings => command::check::print_reference(),
            Command::Import(import) => command::import::run(import).await,
        }
    });
    ended.unwrap_or_else(|error| command::failed(&error))
}
