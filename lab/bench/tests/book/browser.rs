//! The page in a real browser, where one is installed: nothing is wider than its window, no script fails.
//!
//! `M3_SHOTS=DIR` keeps pictures of both widths, light and dark, for eyes; `M3_BOOK=FILE` takes another page.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Place, page};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// A browser that is not done after this is stuck.
const PATIENCE: Duration = Duration::from_secs(150);
/// A phone and a desk.
const WIDTHS: [(u32, u32); 2] = [(390, 16_000), (1_280, 11_000)];

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|place| BROWSERS.map(|name| place.join(name)))
        .find(|program| program.is_file())
}

/// Runs the browser on a page; its output, or nothing where it does not come to an end.
fn run(browser: &Path, place: &Path, arguments: &[&str], page: &Path) -> Option<String> {
    let output = place.join("browser.out");
    let file = std::fs::File::create(&output).expect("a file can be made");
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--virtual-time-budget=3000",
        ])
        .arg(format!("--user-data-dir={}", place.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser starts");
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        if child.try_wait().expect("it can be asked").is_some() {
            return std::fs::read_to_string(&output).ok();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[test]
fn the_page_fits_a_phone_and_a_desk() {
    let Some(browser) = browser() else {
        eprintln!(
            "SKIP: no browser ({}) is on PATH, so the page was not looked at",
            BROWSERS.join(", ")
        );
        return;
    };
    let place = Place::new("browser");
    let text = match std::env::var_os("M3_BOOK") {
        Some(file) => std::fs::read_to_string(file).expect("M3_BOOK names a page"),
        None => page(&place).0,
    };
    // The page tells its frame how wide it came to be, and what its script complained about. A browser's window
    // may not be as narrow as a phone; a frame may.
    let spy = "<script>var wrong=[];addEventListener('error',e=>wrong.push(e.message));\
               addEventListener('load',()=>parent.postMessage({w:document.documentElement.scrollWidth,i:innerWidth,wrong},'*'))</script>";
    let spied = place.0.join("spied.html");
    std::fs::write(&spied, text.replacen("<head>", &format!("<head>{spy}"), 1))
        .expect("it can be written");
    for (width, height) in WIDTHS {
        let frame = place.0.join("frame.html");
        let html = format!(
            "<body style='margin:0'><pre id=said></pre><script>addEventListener('message',e=>said.textContent=JSON.stringify(e.data))</script>\
             <iframe src='spied.html' style='border:0;width:{width}px;height:{height}px'></iframe>"
        );
        std::fs::write(&frame, html).expect("it can be written");
        let Some(dom) = run(&browser, &place.0, &["--dump-dom"], &frame) else {
            eprintln!("SKIP: {} did not come to an end in {PATIENCE:?}", browser.display());
            return;
        };
        let said =
            dom.split_once("<pre id=\"said\">").and_then(|(_, rest)| rest.split_once("</pre>"));
        let Some(said) = said.map(|(said, _)| said).filter(|said| !said.is_empty()) else {
            eprintln!("SKIP: {} showed nothing: {dom:.200}", browser.display());
            return;
        };
        let said: serde_json::Value = serde_json::from_str(said).expect("the page said JSON");
        assert_eq!(said["wrong"], serde_json::json!([]), "the script failed");
        assert!(
            said["w"].as_u64() <= said["i"].as_u64(),
            "wider than its window of {width}: {said}"
        );
        if let Some(shots) = std::env::var_os("M3_SHOTS") {
            shoot(&browser, &place, &PathBuf::from(shots), (width, height));
        }
    }
}

fn shoot(browser: &Path, place: &Place, shots: &Path, (width, height): (u32, u32)) {
    let frame = place.0.join("shot.html");
    let html = format!(
        "<body style='margin:0'><iframe src='spied.html' style='border:0;width:{width}px;height:{height}px'></iframe>"
    );
    std::fs::write(&frame, html).expect("it can be written");
    for (name, scheme) in [("dark", 0), ("light", 1)] {
        let shot = format!("--screenshot={}", shots.join(format!("{name}-{width}.png")).display());
        let size = format!("--window-size={},{height}", width.max(500));
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        run(browser, &place.0, &[&shot, &size, &scheme], &frame);
    }
}
