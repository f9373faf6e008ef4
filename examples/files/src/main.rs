//! The file service: its servers, and its client.
//!
//! ```text
//! m3-files storage FOLDER | cache | names       the servers; a supervisor starts them
//! m3-files put NAME FILE | get NAME | rm NAME | ls
//! ```

use m3ipc_files::client::Files;
use m3ipc_files::peers::Failure;
use m3ipc_files::{cache, names, storage};
use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "\
usage: m3-files put NAME FILE | get NAME | rm NAME | ls
       m3-files storage FOLDER | cache | names";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("m3-files: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(words: &[&str]) -> Result<(), Failure> {
    match words {
        ["storage", folder] => storage::serve(folder.as_ref()).await,
        ["cache"] => cache::serve().await,
        ["names"] => names::serve().await,
        ["put", name, path] => {
            let bytes = std::fs::read(path)?;
            Files::connect().await?.put(name, &bytes).await?;
            Ok(())
        }
        ["get", name] => {
            let found = Files::connect().await?.get(name).await?;
            let bytes = found.ok_or_else(|| format!("no file has the name {name}"))?;
            Ok(std::io::stdout().write_all(&bytes)?)
        }
        ["rm", name] => Ok(Files::connect().await?.remove(name).await?),
        ["ls"] => {
            for (name, entry) in Files::connect().await?.list().await? {
                println!("{:>12}  {name}", entry.bytes);
            }
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}
