//! Templates with the variables `@PREFIX@`, `@LIBDIR@`, `@INCLUDEDIR@`, `@VERSION@`, `@SOVERSION@`.
//!
//! The service files are no templates: they name the default prefix, so that systemd can check them
//! as they are. Installation changes only the path of the program.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// The prefix in files that are no templates.
const DEFAULT_BIN: &str = "/usr/local/bin/";

/// The values of the variables.
pub struct Values {
    /// The prefix, an absolute path.
    pub prefix: PathBuf,
    /// The libraries' folder, an absolute path.
    pub libdir: PathBuf,
    /// The whole version.
    pub version: String,
    /// The part of the version that the SONAME carries.
    pub soversion: String,
}

impl Values {
    /// Values for a prefix, a library folder below it, and a version.
    pub fn new(prefix: &Path, libdir: &Path, version: &str) -> Self {
        let soversion = version.split('.').next().unwrap_or(version).to_owned();
        Self {
            prefix: prefix.to_owned(),
            libdir: prefix.join(libdir),
            version: version.to_owned(),
            soversion,
        }
    }

    /// The name by which programs find the shared library.
    pub fn soname(&self) -> String {
        format!("libm3ipc.so.{}", self.soversion)
    }

    /// Fills in a template.
    ///
    /// # Errors
    /// Where the template has an unknown variable.
    pub fn fill(&self, name: &str, text: &str) -> Result<String, Error> {
        let include = self.prefix.join("include");
        let filled = text
            .replace("@PREFIX@", &self.prefix.to_string_lossy())
            .replace("@LIBDIR@", &self.libdir.to_string_lossy())
            .replace("@INCLUDEDIR@", &include.to_string_lossy())
            .replace("@VERSION@", &self.version)
            .replace("@SOVERSION@", &self.soversion);
        match unfilled(&filled) {
            None => Ok(filled),
            Some(variable) => Err(Error::Unfit {
                what: format!("{name} has the unknown variable {variable}"),
                next: "xtask/src/install/template.rs lists the variables.".into(),
            }),
        }
    }

    /// A service file that starts the programs of this prefix.
    pub fn relocate(&self, text: &str) -> String {
        text.replace(DEFAULT_BIN, &format!("{}/", self.prefix.join("bin").to_string_lossy()))
    }
}

/// The first `@NAME@` of a text.
fn unfilled(text: &str) -> Option<String> {
    text.split('@')
        .skip(1)
        .find(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .map(|part| format!("@{part}@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values::new(Path::new("/opt/m3"), Path::new("lib64"), "0.1.0")
    }

    #[test]
    fn every_variable_is_filled() {
        let text = "prefix=@PREFIX@\nlibdir=@LIBDIR@\nincludedir=@INCLUDEDIR@\n\
                    Version: @VERSION@ (@SOVERSION@)";
        let filled = values().fill("m3ipc.pc.in", text).expect("all variables are known");
        assert_eq!(
            filled,
            "prefix=/opt/m3\nlibdir=/opt/m3/lib64\nincludedir=/opt/m3/include\nVersion: 0.1.0 (0)"
        );
    }

    #[test]
    fn an_unknown_variable_fails_and_an_address_does_not() {
        assert!(values().fill("x", "libs=@LIBS@").is_err());
        assert!(values().fill("x", "mail someone@example.org or root@host").is_ok());
    }

    #[test]
    fn a_service_starts_the_program_of_its_prefix() {
        assert_eq!(values().relocate("ExecStart=/usr/local/bin/m3d"), "ExecStart=/opt/m3/bin/m3d");
    }
}
