//! Areas, as they are shown.

use m3ipc::{AreaAudience, AreaInfo};

/// An area in one line.
pub fn shown(area: &AreaInfo) -> String {
    let audience = match &area.audience {
        AreaAudience::Pair(other) => format!("for it and {other}"),
        AreaAudience::Set(others) => format!("for it and {}", joined(others)),
        AreaAudience::Vm => "for the VM".to_owned(),
    };
    let mode = if area.owner_writes { "its owner writes" } else { "blocks move" };
    let pages = if area.huge { ", huge pages" } else { "" };
    let closed = if area.closed { ", closed" } else { "" };
    format!(
        "area {} of {} {audience}: {mode}{pages}{closed}; {} of {} KiB given out at {:#x}; in it: {}",
        area.area,
        area.owner,
        area.extent_bytes >> 10,
        area.limit_bytes >> 10,
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
    fn a_line_says_whose_it_is_and_who_is_in_it() {
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
            shown(&area),
            "area 3 of 35600 for it and 29: its owner writes; 1024 of 65536 KiB given out at 0x200000000000; \
             in it: 35600, 29"
        );
    }
}
