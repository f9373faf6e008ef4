//! The machine that an installation is for: this one, or the target of a cross build.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::tools;

/// The target of rustup, or nothing for this machine.
pub struct Machine {
    target: Option<String>,
}

impl Machine {
    /// The machine of a target, such as `aarch64-unknown-linux-gnu`.
    pub fn new(target: Option<String>) -> Self {
        Self { target }
    }

    /// Whether programs of the installation do not run here.
    pub fn is_other(&self) -> bool {
        self.target.is_some()
    }

    /// The folder in which cargo builds a profile for it.
    pub fn folder(&self, target_dir: &Path, profile: &str) -> PathBuf {
        target_dir.join(self.target.as_deref().unwrap_or_default()).join(profile)
    }

    /// The C compiler, which also links.
    pub fn cc(&self) -> String {
        match &self.target {
            None => variable("CC").unwrap_or_else(|| "cc".into()),
            Some(target) => {
                let own = variable(&cc_variable(target)).or_else(|| variable("TARGET_CC"));
                own.unwrap_or_else(|| format!("{}-gcc", gnu_name(target)))
            }
        }
    }

    /// The program that separates debug information.
    pub fn objcopy(&self) -> String {
        let default = match &self.target {
            None => "objcopy".into(),
            Some(target) => format!("{}-objcopy", gnu_name(target)),
        };
        variable("OBJCOPY").unwrap_or(default)
    }

    /// Tells cargo the target, its C compiler and its linker.
    pub fn configure(&self, cargo: &mut Command) {
        let Some(target) = &self.target else { return };
        cargo.args(["--target", target]);
        let upper = target.to_uppercase().replace(['-', '.'], "_");
        for key in [format!("CARGO_TARGET_{upper}_LINKER"), cc_variable(target)] {
            if variable(&key).is_none() {
                cargo.env(key, self.cc());
            }
        }
    }

    /// Checks that the parts of a cross build are installed.
    ///
    /// # Errors
    /// Where a part is missing; the text names it, and how to get it.
    pub fn check(&self) -> Result<(), Error> {
        let Some(target) = &self.target else { return Ok(()) };
        let gnu = gnu_name(target);
        let (cc, objcopy) = (self.cc(), self.objcopy());
        for (program, package, key) in [
            (cc, format!("gcc-{gnu}"), cc_variable(target)),
            (objcopy, format!("binutils-{gnu}"), "OBJCOPY".to_owned()),
        ] {
            if !Path::new(&program).is_absolute() && !tools::is_on_path(&program) {
                return Err(Error::Unfit {
                    what: format!("{program}, which builds for {target}, is not installed"),
                    next: format!("apt-get install {package}, or set {key} to another program."),
                });
            }
        }
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", target]);
        let output =
            rustc.output().map_err(|source| Error::Start { program: "rustc".into(), source })?;
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if output.status.success() && folder.is_dir() {
            return Ok(());
        }
        Err(Error::Unfit {
            what: format!("this toolchain has no standard library for {target}"),
            next: format!("rustup target add {target}; `rustup target list` names the targets."),
        })
    }
}

/// The name of a target in GNU's tools: `aarch64-linux-gnu` of `aarch64-unknown-linux-gnu`.
fn gnu_name(target: &str) -> String {
    target.replacen("-unknown-", "-", 1)
}

/// The variable by which build scripts find the C compiler of a target.
fn cc_variable(target: &str) -> String {
    format!("CC_{}", target.replace(['-', '.'], "_"))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_tools_and_a_folder_of_its_own() {
        let other = Machine::new(Some("riscv64gc-unknown-linux-gnu".into()));
        assert_eq!(other.cc(), "riscv64gc-linux-gnu-gcc");
        assert_eq!(
            other.folder(Path::new("/t"), "dist"),
            Path::new("/t/riscv64gc-unknown-linux-gnu/dist")
        );
        assert_eq!(Machine::new(None).folder(Path::new("/t"), "dist"), Path::new("/t/dist"));
    }

    #[test]
    fn a_missing_cross_compiler_is_named_with_its_package() {
        let error = Machine::new(Some("none-unknown-linux-gnu".into())).check();
        let text = error.expect_err("there is no such compiler").to_string();
        assert!(text.contains("none-linux-gnu-gcc"), "{text}");
        assert!(text.contains("apt-get install gcc-none-linux-gnu"), "{text}");
        assert!(text.contains("CC_none_unknown_linux_gnu"), "{text}");
    }
}
