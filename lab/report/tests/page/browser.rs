//! The page in a browser, if one is installed: it fits its window and no script fails.
//!
//! `M3_SHOTS=DIR` keeps pictures of both widths, light and dark. `M3_PAGE=FILE` names another page.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{page_of, sample};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const ARGUMENTS: [&str; 5] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--virtual-time-budget=3000",
];
/// A browser that runs longer than this is stuck.
const LIMIT: Duration = Duration::from_secs(150);
/// Width and height of a phone and of a desk.
const WINDOWS: [(u32, u32); 2] = [(390, 16_000), (1_280, 11_000)];
/// Reports the width of the page and the errors of its script to the frame around it.
const PROBE: &str = "<script>var wrong=[];addEventListener('error',e=>wrong.push(e.message));\
    addEventListener('load',()=>parent.postMessage(\
    {w:document.documentElement.scrollWidth,i:innerWidth,wrong},'*'))</script>";
const RECEIVER: &str = "<pre id=said></pre><script>addEventListener('message',\
    e=>said.textContent=JSON.stringify(e.data))</script>";

/// A directory that is removed with the test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Directory {
    /// Writes a page that holds the probed page in a frame; a window may not be so narrow.
    fn frame(&self, body: &str, (width, height): (u32, u32)) -> PathBuf {
        let path = self.0.join("frame.html");
        let style = format!("border:0;width:{width}px;height:{height}px");
        let html = format!(
            "<body style='margin:0'>{body}<iframe src='probed.html' style='{style}'></iframe>"
        );
        std::fs::write(&path, html).expect("a file can be written");
        path
    }
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let programs = std::env::split_paths(&path).flat_map(|dir| BROWSERS.map(|it| dir.join(it)));
    programs.into_iter().find(|program| program.is_file())
}

/// Runs the browser on a page; returns its output, or nothing if it does not end.
fn run(browser: &Path, dir: &Directory, arguments: &[&str], page: &Path) -> Option<String> {
    let output = dir.0.join("browser.out");
    let file = std::fs::File::create(&output).expect("a file can be made");
    let mut child = Command::new(browser)
        .args(ARGUMENTS)
        .arg(format!("--user-data-dir={}", dir.0.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser starts");
    let since = Instant::now();
    while since.elapsed() < LIMIT {
        if child.try_wait().expect("the browser has a state").is_some() {
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
        eprintln!("SKIP: no browser ({}) is on PATH", BROWSERS.join(", "));
        return;
    };
    let path = std::env::temp_dir().join(format!("m3-page-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory can be made");
    let dir = Directory(path);
    let text = std::env::var_os("M3_PAGE").map_or_else(
        || page_of(&sample::run()),
        |file| std::fs::read_to_string(file).expect("M3_PAGE names a page"),
    );
    let probed = text.replacen("<head>", &format!("<head>{PROBE}"), 1);
    std::fs::write(dir.0.join("probed.html"), probed).expect("a file can be written");
    for window in WINDOWS {
        let frame = dir.frame(RECEIVER, window);
        let Some(dom) = run(&browser, &dir, &["--dump-dom"], &frame) else {
            eprintln!("SKIP: {} did not end in {LIMIT:?}", browser.display());
            return;
        };
        let said = dom.split_once("<pre id=\"said\">").and_then(|(_, it)| it.split_once("</pre>"));
        let Some((said, _)) = said.filter(|(said, _)| !said.is_empty()) else {
            eprintln!("SKIP: {} showed nothing: {dom:.200}", browser.display());
            return;
        };
        let said: serde_json::Value = serde_json::from_str(said).expect("the page reports JSON");
        assert_eq!(said["wrong"], serde_json::json!([]), "the script failed");
        assert!(said["w"].as_u64() <= said["i"].as_u64(), "too wide for {window:?}: {said}");
        if let Some(shots) = std::env::var_os("M3_SHOTS") {
            shoot(&browser, &dir, Path::new(&shots), window);
        }
    }
}

fn shoot(browser: &Path, dir: &Directory, shots: &Path, (width, height): (u32, u32)) {
    let frame = dir.frame("", (width, height));
    for (name, scheme) in [("dark", 0), ("light", 1)] {
        let shot = format!("--screenshot={}", shots.join(format!("{name}-{width}.png")).display());
        let size = format!("--window-size={},{height}", width.max(500));
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        run(browser, dir, &[&shot, &size, &scheme], &frame);
    }
}
