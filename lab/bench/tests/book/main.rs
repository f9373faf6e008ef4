//! The bench book: its figures are those of the raw JSON, it can be gone on with, and it fits its window.

mod browser;
mod figures;
mod made_up;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("m3-book-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn report(arguments: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_m3-bench"));
    command.arg("report").args(arguments).arg("--out").arg(out);
    command
}

fn done(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The page of a run that was made up.
fn page(place: &Place) -> (String, serde_json::Value) {
    let json = made_up::run();
    let file = place.0.join("made-up.json");
    std::fs::write(&file, json.to_string()).expect("the file can be written");
    let output = done(&mut report(&["--from", &file.to_string_lossy()], &place.0));
    assert!(output.status.success(), "{}", text(&output.stderr));
    (std::fs::read_to_string(place.0.join("index.html")).expect("the page is there"), json)
}

#[test]
fn every_figure_of_the_page_is_computed_from_the_raw_json() {
    let place = Place::new("figures");
    let (page, json) = page(&place);
    let checked = figures::check(&page, &json);
    assert!(checked > 500, "only {checked} figures were found");
    assert!(
        page.contains("id=\"sockets\"") && page.contains("#bells\""),
        "the chapter of sockets is there"
    );
}

#[test]
fn the_page_needs_nothing_else_and_has_its_chapters() {
    let place = Place::new("whole");
    let (page, _) = page(&place);
    for far in ["src=\"", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(far), "the page asks for something: {far}");
    }
    for chapter in [
        "messages",
        "asleep",
        "pairs",
        "clients",
        "blocks",
        "attach",
        "handover",
        "death",
        "libraries",
        "costs",
    ] {
        assert!(page.contains(&format!("<section id=\"{chapter}\">")), "no chapter {chapter}");
    }
    for quoted in
        ["1,460,000", "16.7 GB/s", "0.058", "0.124", "21, 71, 210", "817, 300, 967, 1593, 982"]
    {
        assert!(page.contains(quoted), "the paper's {quoted} is not quoted");
    }
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn where_ours_is_not_the_first_the_page_says_so() {
    let place = Place::new("lost");
    let mut json = made_up::run();
    for row in json["samples"].as_array_mut().expect("samples are a list") {
        if row["test"] == "ipc2" && row["mechanism"] == "pipe" {
            for round in row["rounds"].as_array_mut().expect("rounds are a list") {
                round["samples"] = serde_json::json!([[50, 1000]]);
                round["block_ns"] = 50.0.into();
            }
        }
    }
    let file = place.0.join("lost.json");
    std::fs::write(&file, json.to_string()).expect("the file can be written");
    let output = done(&mut report(&["--from", &file.to_string_lossy()], &place.0));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(place.0.join("index.html")).expect("the page is there");
    let (_, after) = page.split_once("<section id=\"messages\">").expect("the chapter is there");
    let (title, _) = after.split_once("</h2>").expect("it has a title");
    assert!(title.contains("slower than pipe"), "{title}");
}

#[test]
fn beside_a_faster_library_the_row_and_the_title_say_so() {
    let place = Place::new("libraries");
    let (page, _) = page(&place);
    let (_, after) = page.split_once("<section id=\"libraries\">").expect("the chapter is there");
    let (chapter, _) = after.split_once("</section>").expect("it ends");
    for words in ["is first in", "; not in 1", "iceoryx2; m3ipc is not", "zeromq 4.3.4"] {
        assert!(chapter.contains(words), "{words}: {chapter}");
    }
}

#[test]
fn a_run_that_was_killed_is_gone_on_with() {
    let place = Place::new("resumed");
    let arguments = [
        "--quick",
        "--rounds",
        "2",
        "--millis",
        "20",
        "--only",
        "ipc1,ipc2",
        "--only",
        "sched-yield,bounce",
    ];
    let mut first = report(&arguments, &place.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let unfinished = place.0.join("unfinished.json");
    let since = Instant::now();
    let whole = loop {
        if let Some(status) = first.try_wait().expect("it can be asked") {
            break Some(status);
        }
        if unfinished.exists() {
            break None;
        }
        assert!(since.elapsed() < Duration::from_secs(100), "no step was done in 100 s");
        std::thread::sleep(Duration::from_millis(1));
    };
    let _ = first.kill();
    let _ = first.wait();
    if whole.is_some() || place.0.join("bench.json").exists() {
        eprintln!("SKIP: the run was done before it could be killed");
        return;
    }
    let other = done(&mut report(&["--quick", "--only", "pipe"], &place.0));
    assert_eq!(other.status.code(), Some(2), "another run must not go on with this one");
    assert!(text(&other.stderr).contains("--fresh"), "{}", text(&other.stderr));
    let second = done(&mut report(&arguments, &place.0));
    let said = text(&second.stderr);
    assert!(second.status.success() && said.contains("are done already"), "{said}");
    assert!(!unfinished.exists() && place.0.join("index.html").exists());
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.0.join("bench.json")).expect("it is there"))
            .expect("it is JSON");
    assert_eq!(json["run"]["resumed"], 1);
    let titles: Vec<&str> = json["steps"]
        .as_array()
        .expect("steps are a list")
        .iter()
        .filter_map(|s| s["title"].as_str())
        .collect();
    let mut once = titles.clone();
    once.dedup();
    assert_eq!(titles, once, "no step was taken twice");
}
