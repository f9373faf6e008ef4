//! An area as text.

use m3ipc::{AreaAudience, AreaInfo};

/// An area in one line.
pub fn text(area: &AreaInfo) -> String {
    let owner = area.owner;
    let audience = match &area.audience {
        AreaAudience::Pair(other) => format!("for {owner} and {other}"),
        AreaAudience::Set(others) => format!("for {owner} and {}", joined(others)),
        AreaAudience::Vm => "for the VM".to_owned(),
    };
    let mode = if area.owner_writes { "only the owner writes" } else { "blocks change hands" };
    let pages = if area.huge { ", huge pages" } else { "" };
    let closed = if area.closed { ", closed" } else { "" };
    let (used_kib, limit_kib) = (area.extent_bytes >> 10, area.limit_bytes >> 10);
    format!(
        "area {} of {owner}, {audience}: {mode}{pages}{closed}; {used_kib} of {limit_kib} KiB in \
         use at {:#x}; attached: {}",
        area.area,
        area.base,
        joined(&area.members)
    )
}

fn joined(addresses: &[i32]) -> String {
    let texts: Vec<String> = addresses.iter().map(i32::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_owner_the_audience_and_the_members() {
        let area = AreaInfo {
            area: 3,
            base: 0x2000_0000_0000,
            limit_bytes: 64 << 20,
            extent_bytes: 1 << 20,
            owner: 35_600,
            audience: AreaAudience::Pair(29),
            owner_writes: true,
            huge: false,
            closed: false,
            numbers: 1024,
            members: vec![35_600, 29],
        };
        assert_eq!(
            text(&area),
            "area 3 of 35600, for 35600 and 29: only the owner writes; 1024 of 65536 KiB in use at \
             0x200000000000; attached: 35600, 29"
        );
    }
}
