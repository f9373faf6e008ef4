//! What a table cannot say alone: names, slots and needs of all services together.

use super::form::Service;
use super::wrong::Wrong;
use std::collections::BTreeMap;
use toml::Spanned;

type Services = BTreeMap<String, Spanned<Service>>;

/// The longest name of a VM.
const VM_NAME_BYTES: usize = 15;

pub(super) fn vm_name(name: &Spanned<String>) -> Result<(), Wrong> {
    let bytes = name.get_ref().len();
    if (1..=VM_NAME_BYTES).contains(&bytes) {
        return Ok(());
    }
    let what = format!("the name of the VM has {bytes} bytes");
    Err(Wrong::new(name.span().start, what, format!("use 1 to {VM_NAME_BYTES}")))
}

pub(super) fn mode(written: Option<&Spanned<String>>) -> Result<u16, Wrong> {
    let Some(written) = written else { return Ok(0o750) };
    match u16::from_str_radix(written.get_ref(), 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => {
            let what = format!("{:?} is no mode", written.get_ref());
            Err(Wrong::new(written.span().start, what, "write three octal digits, as in \"750\""))
        }
    }
}

pub(super) fn name(name: &Spanned<String>) -> Result<(), Wrong> {
    let bytes = name.get_ref().len();
    if (1..=m3ipc::NAME_MAX_BYTES).contains(&bytes) {
        return Ok(());
    }
    let next = format!("use 1 to {}", m3ipc::NAME_MAX_BYTES);
    Err(Wrong::new(name.span().start, format!("a name of {bytes} bytes"), next))
}

/// Each table by itself.
pub(super) fn services(services: &Services) -> Result<(), Wrong> {
    if services.is_empty() {
        let next = "add a table [service.NAME] with the key run";
        return Err(Wrong::new(0, "the file has no service", next));
    }
    for (key, service) in services {
        let at = service.span().start;
        let is_plain = |it: char| it.is_alphanumeric() || "-_.".contains(it);
        if key.is_empty() || !key.chars().all(is_plain) || key.len() > m3ipc::NAME_MAX_BYTES {
            let what = format!("{key:?} is no name of a service");
            return Err(Wrong::new(at, what, "use 1 to 63 letters, digits, '-', '_' and '.'"));
        }
        let service = service.get_ref();
        if service.run.get_ref().first().is_none_or(String::is_empty) {
            let next = "write the program and its arguments: run = [\"./server\", \"-v\"]";
            return Err(Wrong::new(service.run.span().start, "run names no program", next));
        }
        if let Some(written) = &service.name {
            name(written)?;
        }
    }
    Ok(())
}

/// Names of endpoints are unique.
pub(super) fn names(supervisor: &str, services: &Services) -> Result<(), Wrong> {
    let mut seen = BTreeMap::from([(supervisor, "the supervisor")]);
    for (key, service) in services {
        let written = service.get_ref().name.as_ref();
        let name = written.map_or(key, Spanned::get_ref);
        if let Some(other) = seen.insert(name, key) {
            let at = written.map_or(service.span().start, |name| name.span().start);
            let what = format!("{other} has the name {name:?} too");
            return Err(Wrong::new(
                at,
                what,
                "give each service a name of its own: name = \"...\"",
            ));
        }
    }
    Ok(())
}

/// Slots are unique.
pub(super) fn slots(supervisor: i32, services: &Services) -> Result<(), Wrong> {
    let mut seen = BTreeMap::from([(supervisor, "the supervisor")]);
    for (key, service) in services {
        let Some(slot) = &service.get_ref().slot else { continue };
        if let Some(other) = seen.insert(*slot.get_ref(), key) {
            let what = format!("{other} has the slot {} too", slot.get_ref());
            return Err(Wrong::new(slot.span().start, what, "choose another slot"));
        }
    }
    Ok(())
}

/// Needs are services, and form no circle.
pub(super) fn needs(services: &Services) -> Result<(), Wrong> {
    for service in services.values() {
        for need in &service.get_ref().needs {
            if !services.contains_key(need.get_ref()) {
                let known: Vec<&str> = services.keys().map(String::as_str).collect();
                let what = format!("needs names {:?}, which is no service", need.get_ref());
                let next = format!("write one of: {}", known.join(", "));
                return Err(Wrong::new(need.span().start, what, next));
            }
        }
    }
    // Removes, again and again, the services that need none of the rest. A circle stays.
    let mut rest: Vec<&String> = services.keys().collect();
    loop {
        let before = rest.len();
        let names = rest.clone();
        rest.retain(|key| {
            services[*key].get_ref().needs.iter().any(|need| names.contains(&need.get_ref()))
        });
        if rest.len() == before {
            break;
        }
    }
    let Some(first) = rest.first() else { return Ok(()) };
    let names: Vec<&str> = rest.iter().map(|key| key.as_str()).collect();
    let at = services[*first].get_ref().needs.first().map_or(0, |need| need.span().start);
    let what = format!("these services need each other: {}", names.join(", "));
    Err(Wrong::new(at, what, "remove one of the needs"))
}
