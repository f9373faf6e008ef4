//! A section of the page.

use maud::{Markup, html};

/// One section.
pub struct Section {
    /// Its anchor.
    pub id: &'static str,
    /// Its name in the navigation.
    pub name: &'static str,
    /// The finding.
    pub title: Markup,
    /// The rest.
    pub body: Markup,
}

impl Section {
    /// The section as HTML.
    pub fn markup(&self) -> Markup {
        html! {
            section id=(self.id) {
                p.over { (self.name) }
                h2 { (self.title) }
                (self.body)
            }
        }
    }
}
