//! The events that are known, by name, and lines in which a name stands where it should not.

use crate::formats::event_line::{words_of, EventLine};

/// An event that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Add,
    Delete,
    GetPages,
    FileFault,
    FileRead,
    FileWrite,
    MapPages,
    UserFault,
    KernelFault,
    Faults,
    MinorFaults,
    MajorFaults,
    Aggregated,
}

/// Names, and whether the event can be a reference.
const EVENTS: [(&str, Event, bool); 14] = [
    ("mm_filemap_add_to_page_cache", Event::Add, true),
    ("mm_filemap_delete_from_page_cache", Event::Delete, false),
    ("mm_filemap_get_pages", Event::GetPages, true),
    ("mm_filemap_fault", Event::FileFault, true),
    ("file_read", Event::FileRead, true),
    ("file_write", Event::FileWrite, true),
    ("mm_filemap_map_pages", Event::MapPages, false),
    ("page_fault_user", Event::UserFault, true),
    ("page_fault_kernel", Event::KernelFault, true),
    ("page-faults", Event::Faults, true),
    ("faults", Event::Faults, true),
    ("minor-faults", Event::MinorFaults, true),
    ("major-faults", Event::MajorFaults, true),
    ("damon_aggregated", Event::Aggregated, true),
];

/// What `events` may name.
pub(super) const CHOICE: &str = "mm_filemap_add_to_page_cache, mm_filemap_get_pages, \
     mm_filemap_fault, file_read, file_write, page_fault_user, page_fault_kernel, page-faults, minor-faults, major-faults, \
     damon_aggregated";

/// An event by its name; perf puts the subsystem before it and modifiers behind.
pub(super) fn event_of(name: &[u8]) -> Option<(Event, bool)> {
    name.split(|&byte| byte == b':').find_map(|part| {
        let found = EVENTS.iter().find(|(name, ..)| name.as_bytes() == part);
        found.map(|&(_, event, refers)| (event, refers))
    })
}

/// A line that ends within the name of an event that is known here, as the last of a recording that was cut off does.
pub(super) fn is_cut(line: &EventLine<'_>) -> bool {
    let name = line
        .fields
        .rsplit(|&byte| byte == b':')
        .next()
        .unwrap_or_default();
    line.event.is_empty()
        && name.len() > 2
        && EVENTS
            .iter()
            .any(|(known, ..)| known.as_bytes().starts_with(name))
}

/// A line that has the name of an event known here in another place than behind the time stamp: something stands between.
pub(super) fn is_misplaced(line: &EventLine<'_>) -> bool {
    let name = |word: &[u8]| word.strip_suffix(b":").and_then(event_of);
    line.event.is_empty() && words_of(line.fields).any(|word| name(word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_by_any_of_their_names() {
        for (name, event) in [
            (&b"filemap:mm_filemap_add_to_page_cache"[..], Event::Add),
            (b"mm_filemap_add_to_page_cache", Event::Add),
            (b"page-faults:u", Event::Faults),
            (b"faults", Event::Faults),
            (b"exceptions:page_fault_user", Event::UserFault),
        ] {
            assert_eq!(event_of(name).map(|(event, _)| event), Some(event));
        }
        assert_eq!(event_of(b"sched:sched_switch"), None);
        assert_eq!(event_of(b""), None);
    }
}
