//! The bench book: `m3 bench report` measures everything and writes one page about it.
//!
//! ```text
//! steps ──> state (what is done, kept after each step) ──> Output (raw JSON) ──> page (HTML)
//!                                                            └── --from FILE ──────┘
//! ```
//! The page is made from the JSON alone: whoever has the JSON can make the page again, and a test does, and
//! computes its figures anew. It is one file that needs no network: style, drawings and a few lines of script are
//! in it.

mod bars;
mod chapters;
mod format;
mod page;
mod plot;
mod rows;
mod state;
mod watch;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::args::{BenchArgs, Suite};
use crate::error::Error;
use crate::measure::Bench;
use crate::output::{Output, replace};
use crate::progress::Progress;
use crate::record::Results;
use crate::suite::{Step, Suites};
use crate::{Outcome, mechanism, ours};

pub use page::page;
pub use state::{RunCard, StepCard};

use state::State;
use watch::Watch;

/// Measures everything and writes one page about it.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// Fewer and shorter rounds: about two minutes instead of about fifteen
    #[arg(long)]
    pub quick: bool,
    /// Directory of the page and its JSON; an unfinished run there is gone on with
    #[arg(long, value_name = "DIR", default_value = "m3-bench-report")]
    pub out: PathBuf,
    /// Measure only what matches, as for a measurement
    #[arg(long, value_name = "WORD")]
    pub only: Vec<String>,
    /// Measure libraries of others in the same run, by the program m3-peers: iceoryx2, zeromq, nng, ipc-channel, zenoh
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Interleaved rounds of each measurement [default: 7; 3 with --quick]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: Option<u32>,
    /// Length of each measurement in milliseconds [default: by the test]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub millis: Option<u64>,
    /// Throw an unfinished run in the directory away and begin anew
    #[arg(long)]
    pub fresh: bool,
    /// Measure nothing: make the page from this JSON of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "with", "rounds", "millis", "fresh"])]
    pub from: Option<PathBuf>,
}

impl ReportArgs {
    fn measure(&self) -> BenchArgs {
        BenchArgs {
            suite: Some(Suite::All),
            quick: self.quick,
            only: self.only.clone(),
            rounds: self.rounds,
            millis: self.millis,
            with: self.with.clone(),
            ..BenchArgs::default()
        }
    }

    /// The command that repeats the run.
    fn command(&self) -> String {
        let mut words = vec!["m3 bench report".to_owned()];
        words.extend(self.quick.then(|| "--quick".into()));
        words.extend(self.only.iter().map(|word| format!("--only {word}")));
        if !self.with.is_empty() {
            words.push(format!("--with {}", self.with.join(",")));
        }
        words.extend(self.rounds.map(|rounds| format!("--rounds {rounds}")));
        words.extend(self.millis.map(|millis| format!("--millis {millis}")));
        words.join(" ")
    }
}

/// Name of the page in its directory.
pub const PAGE: &str = "index.html";
/// Name of the JSON beside it.
pub const JSON: &str = "bench.json";
/// Name of the JSON of the run before.
pub const BEFORE: &str = "bench.before.json";

/// Measures what is still to be measured, and writes the page.
///
/// # Errors
/// Where the directory cannot be written, an unfinished run in it is another one, or nothing can be measured.
pub fn run(args: &ReportArgs) -> Result<Outcome, Error> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    std::fs::create_dir_all(&args.out).map_err(file(&args.out))?;
    let json = args.out.join(JSON);
    let output = match &args.from {
        Some(from) => Output::read(from)?,
        None => {
            let output = measured(args)?;
            if json.exists() {
                std::fs::rename(&json, args.out.join(BEFORE)).map_err(file(&json))?;
            }
            output.write(&json)?;
            State::remove(&args.out);
            output
        }
    };
    let beside = args.from.as_deref().unwrap_or(Path::new(JSON));
    let path = args.out.join(PAGE);
    replace(&path, page(&output, beside).as_bytes())?;
    println!("{}", path.display());
    if args.from.is_none() {
        println!("{}", json.display());
        if args.out.join(BEFORE).exists() {
            println!(
                "against the run before: m3 bench compare {} {}",
                args.out.join(BEFORE).display(),
                json.display()
            );
        }
    }
    for failed in &output.failed {
        eprintln!("failed: {failed}");
    }
    Ok(if output.failed.is_empty() { Outcome::Fine } else { Outcome::Failed })
}

/// Takes the steps that are not done yet, each kept as soon as it is done.
fn measured(args: &ReportArgs) -> Result<Output, Error> {
    let bench = Bench::new()?;
    let measure = args.measure();
    let found = mechanism::outside::find(&args.with)?;
    let all: Vec<_> = mechanism::all().into_iter().chain(found.mechanisms).collect();
    let suites = Suites::plan(&measure, &bench, &all, true);
    let steps = suites.steps();
    if steps.is_empty() {
        return Err(Error::Usage(
            "nothing matches --only; m3 bench all --only WORD tells what there is".into(),
        ));
    }
    let mut state = State::open(args, &bench)?;
    let skipped: Vec<String> = found.skipped.into_iter().chain(suites.left_out()).collect();
    state.note(found.versions, &skipped);
    let left: Vec<&Step<'_>> = steps.iter().filter(|step| !state.is_done(step.title())).collect();
    if left.len() < steps.len() {
        eprintln!(
            "{} of {} steps are done already; going on",
            steps.len() - left.len(),
            steps.len()
        );
    }
    let cells: usize = left.iter().map(|step| step.cells()).sum();
    let mut progress = Progress::new(cells * usize::try_from(measure.rounds()).unwrap_or(1));
    for step in left {
        let mut found = Results { cpus: bench.cpus.allowed, ..Results::default() };
        let watch = Watch::start();
        step.run(&bench, &measure, &mut progress, &mut found);
        state.add(watch.end(step.title()), &found)?;
    }
    ours::end();
    drop(progress);
    Ok(state.finished())
}

/// Seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
