//! The test command of a project, by the files in its directory.

use std::path::Path;

/// The words of the command; `None` if no file tells.
pub fn test_command(directory: &Path) -> Option<Vec<String>> {
    let words = |command: &str| Some(command.split(' ').map(str::to_owned).collect());
    let has = |name: &str| directory.join(name).is_file();
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap_or_default();
    if has("Cargo.toml") {
        return words("cargo test");
    }
    if has("package.json") {
        let package: serde_json::Value = serde_json::from_str(&text("package.json")).ok()?;
        return package["scripts"]["test"].as_str().and_then(|_| words("npm test"));
    }
    if has("CTestTestfile.cmake") {
        return words("ctest");
    }
    if has("runtest") {
        return words("./runtest");
    }
    for makefile in ["GNUmakefile", "makefile", "Makefile"] {
        let text = text(makefile);
        let target = ["check", "test"].into_iter().find(|target| {
            text.lines().any(|line| {
                line.strip_prefix(target).is_some_and(|rest| rest.trim_start().starts_with(':'))
            })
        });
        if let Some(target) = target {
            return words(&format!("make {target}"));
        }
    }
    let python = ["pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", "setup.py"];
    python.into_iter().any(has).then(|| words("python3 -m pytest")).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_tell_the_command() {
        let name = format!("m3-suite-project-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        for (file, content, command) in [
            ("Makefile", "all:\n\ttrue\ncheck: all\n\t./test\n", Some("make check")),
            ("Makefile", "test :\n\t./test\n", Some("make test")),
            ("Makefile", "tests:\n\t./test\n", None),
            ("Cargo.toml", "", Some("cargo test")),
            ("package.json", r#"{"scripts": {"test": "node test.js"}}"#, Some("npm test")),
            ("package.json", "{}", None),
            ("runtest", "", Some("./runtest")),
            ("pyproject.toml", "", Some("python3 -m pytest")),
            ("README", "", None),
        ] {
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join(file), content).unwrap();
            let found = test_command(&directory).map(|words| words.join(" "));
            assert_eq!(found.as_deref(), command, "{file}: {content}");
            std::fs::remove_dir_all(&directory).unwrap();
        }
    }
}
