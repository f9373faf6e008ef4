//! The modules of one crate, and the search for the file that defines the item of a path.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::error::Error;

/// A file, the files that it imports, and for each of them a path that it names.
pub type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// How many re-exports a path may pass: they can form circles themselves.
const MAX_REEXPORTS: usize = 16;

/// A crate: its modules, with the root first.
pub struct Crate {
    modules: Vec<Module>,
}

/// A module: a file, or an inline block of one.
#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The names of the items that it defines.
    items: HashSet<String>,
    /// The name that a `use` gives, and the path.
    uses: Vec<(String, Vec<String>)>,
    /// The modules that it imports or exports as a whole.
    globs: Vec<Vec<String>>,
    /// The paths that it names in private imports and in code.
    paths: Vec<Vec<String>>,
}

impl Crate {
    /// Reads a crate from its root file; `root` is cut from the names of the files.
    ///
    /// # Errors
    /// Where a file cannot be read or parsed.
    pub fn read(root: &Path, file: &Path) -> Result<Self, Error> {
        let read = |path: &Path| fs::read_to_string(path).map_err(|e| Error::read(path, e));
        let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        let mut reader = Reader { modules: Vec::new(), read: &read, name: &name };
        reader.file(file, file.parent().unwrap_or(root), None)?;
        Ok(Self { modules: reader.modules })
    }

    /// A crate made of texts; the first is the root.
    #[cfg(test)]
    pub fn of_texts(files: &[(&str, &str)]) -> Self {
        let read = |path: &Path| {
            let text = files.iter().find(|(name, _)| Path::new(name) == path).map(|f| f.1);
            text.map(str::to_owned)
                .ok_or_else(|| Error::read(path, std::io::ErrorKind::NotFound.into()))
        };
        let name = |path: &Path| path.display().to_string();
        let mut reader = Reader { modules: Vec::new(), read: &read, name: &name };
        reader.file(Path::new(files[0].0), Path::new(""), None).expect("the texts are Rust");
        Self { modules: reader.modules }
    }

    /// The imports between the files of the crate.
    pub fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (index, module) in self.modules.iter().enumerate() {
            let to = imports.entry(module.file.clone()).or_default();
            for path in &module.paths {
                if let Some(found) = self.find(index, path, true, MAX_REEXPORTS) {
                    let file = &self.modules[found].file;
                    if *file != module.file {
                        to.entry(file.clone()).or_insert_with(|| path.join("::"));
                    }
                }
            }
        }
        imports
    }

    /// The module that defines the item of a path; nothing where the path names a module.
    ///
    /// `is_start` allows `crate`, `self` and `super`; `left` counts the re-exports to follow.
    fn find(&self, at: usize, path: &[String], is_start: bool, left: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let module = &self.modules[at];
        if is_start {
            let to = match first.as_str() {
                "crate" => Some(0),
                "self" => Some(at),
                "super" => module.parent,
                _ => None,
            };
            if let Some(to) = to {
                return self.find(to, rest, first == "super", left);
            }
        }
        if let Some(child) = module.children.get(first) {
            return self.find(*child, rest, false, left);
        }
        if module.items.contains(first) {
            return Some(at);
        }
        let left = left.checked_sub(1)?;
        if let Some((_, used)) = module.uses.iter().find(|(name, _)| name == first) {
            let used: Vec<String> = used.iter().chain(rest).cloned().collect();
            // `use link;` of a crate with that name would lead to itself.
            return (used != path).then(|| self.find(at, &used, true, left))?;
        }
        module.globs.iter().find_map(|glob| {
            let used: Vec<String> = glob.iter().chain(path).cloned().collect();
            self.find(at, &used, true, left)
        })
    }
}

/// Reads files into modules.
struct Reader<'a> {
    modules: Vec<Module>,
    read: &'a dyn Fn(&Path) -> Result<String, Error>,
    name: &'a dyn Fn(&Path) -> String,
}

impl Reader<'_> {
    /// Reads a file; `folder` holds the files of its child modules.
    fn file(&mut self, path: &Path, folder: &Path, parent: Option<usize>) -> Result<usize, Error> {
        let text = (self.read)(path)?;
        let file = syn::parse_file(&text)
            .map_err(|e| Error::Syntax { path: path.to_owned(), reason: e.to_string() })?;
        let name = (self.name)(path);
        self.module(name, &file.items, folder, parent)
    }

    fn module(
        &mut self,
        file: String,
        items: &[syn::Item],
        folder: &Path,
        parent: Option<usize>,
    ) -> Result<usize, Error> {
        let index = self.modules.len();
        self.modules.push(Module { file: file.clone(), parent, ..Module::default() });
        for item in items {
            if is_test(attributes(item)) {
                continue;
            }
            let syn::Item::Mod(child) = item else {
                self.modules[index].visit_item(item);
                continue;
            };
            let name = child.ident.to_string();
            let below = folder.join(&name);
            let child = match &child.content {
                Some((_, items)) => self.module(file.clone(), items, &below, Some(index))?,
                None => match path_attribute(&child.attrs) {
                    Some(path) => {
                        let path = folder.join(path);
                        let below = path.with_extension("");
                        self.file(&path, &below, Some(index))?
                    }
                    None => self.child(folder, &name, index)?,
                },
            };
            self.modules[index].children.insert(name, child);
        }
        Ok(index)
    }

    /// Reads `name.rs` or `name/mod.rs`.
    fn child(&mut self, folder: &Path, name: &str, parent: usize) -> Result<usize, Error> {
        let below = folder.join(name);
        let file = folder.join(format!("{name}.rs"));
        let path: PathBuf = if (self.read)(&file).is_ok() { file } else { below.join("mod.rs") };
        self.file(&path, &below, Some(parent))
    }
}

impl Module {
    /// The leaves of a `use`. A private one is an import, another one is a re-export.
    fn take_use(&mut self, tree: &syn::UseTree, start: &[String], is_import: bool) {
        let mut path = start.to_vec();
        let name = match tree {
            syn::UseTree::Path(branch) => {
                path.push(branch.ident.to_string());
                return self.take_use(&branch.tree, &path, is_import);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.take_use(tree, &path, is_import));
                return;
            }
            syn::UseTree::Glob(_) => {
                self.globs.push(path);
                return;
            }
            syn::UseTree::Name(name) if name.ident == "self" => path.last().cloned(),
            syn::UseTree::Rename(name) if name.ident == "self" => Some(name.rename.to_string()),
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                path.last().cloned()
            }
            syn::UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                Some(name.rename.to_string())
            }
        };
        if is_import {
            self.paths.push(path.clone());
        }
        self.uses.extend(name.map(|name| (name, path)));
    }

    /// The types whose names stand in the rules of a macro, which this file surely calls.
    fn take_definitions(&mut self, tokens: TokenStream) {
        let mut defines = false;
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.take_definitions(group.stream()),
                TokenTree::Ident(ident) if defines => {
                    self.items.insert(ident.to_string());
                    defines = false;
                }
                TokenTree::Ident(ident) => {
                    defines = ["enum", "struct", "trait", "type"].iter().any(|it| ident == it);
                }
                _ => defines = false,
            }
        }
    }

    /// The paths in the text of a macro call.
    fn take_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.paths.push(std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        TokenTree::Group(group) => self.take_tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.paths.push(path);
        self.paths.retain(|path| !path.is_empty());
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Use(used) => {
                let is_import = matches!(used.vis, syn::Visibility::Inherited);
                return self.take_use(&used.tree, &[], is_import);
            }
            syn::Item::Const(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Fn(item) => Some(&item.sig.ident),
            syn::Item::Static(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            syn::Item::Macro(item) if item.ident.is_some() => {
                self.take_definitions(item.mac.tokens.clone());
                None
            }
            _ => None,
        };
        self.items.extend(name.map(ToString::to_string));
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.take_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    // A path of an attribute or of a visibility is no import.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an attribute leaves the item to tests: `#[cfg(test)]`, `#[cfg(all(test, ...))]`.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let text = list.tokens.to_string();
        list.path.is_ident("cfg") && (text == "test" || text.starts_with("all (test"))
    })
}

/// The file of `#[path = "..."]`.
pub fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(literal) = &pair.value else { return None };
        match &literal.lit {
            syn::Lit::Str(text) if pair.path.is_ident("path") => Some(text.value()),
            _ => None,
        }
    })
}
