//! Kind and memories of a copy, from names such as `Memcpy HtoD (Pageable -> Device)`.

use rooflens_session::{CopyKind, MemoryKind};

/// The kind of a copy or memset by its name.
pub(super) fn copy_kind(name: &str, memset: bool) -> CopyKind {
    if memset {
        return CopyKind::Memset;
    }
    match name.split_whitespace().nth(1).unwrap_or_default() {
        "HtoD" => CopyKind::HostToDevice,
        "DtoH" => CopyKind::DeviceToHost,
        "DtoD" => CopyKind::DeviceToDevice,
        "PtoP" => CopyKind::PeerToPeer,
        "HtoH" => CopyKind::HostToHost,
        "HtoA" | "AtoH" | "AtoA" | "AtoD" | "DtoA" => CopyKind::Array,
        _ => CopyKind::Unknown,
    }
}

/// The memory that is read and the memory that is written; a memset reads none.
pub(super) fn memory_kinds(name: &str, memset: bool) -> (MemoryKind, MemoryKind) {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    let inner = inner.map_or("", |(inner, _)| inner);
    match inner.split_once("->") {
        Some((source, destination)) => (
            MemoryKind::of_name(source),
            MemoryKind::of_name(destination),
        ),
        None if memset => (MemoryKind::Unknown, MemoryKind::of_name(inner)),
        None => (MemoryKind::Unknown, MemoryKind::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::{copy_kind, memory_kinds};
    use rooflens_session::CopyKind;
    use rooflens_session::MemoryKind::{Device, Managed, Pageable, Pinned, Unknown};

    #[test]
    fn names_tell_direction_and_memory() {
        for (name, kind, memory) in [
            (
                "Memcpy HtoD (Pageable -> Device)",
                CopyKind::HostToDevice,
                (Pageable, Device),
            ),
            (
                "Memcpy DtoH (Device -> Pinned)",
                CopyKind::DeviceToHost,
                (Device, Pinned),
            ),
            (
                "Memcpy DtoD (Device -> Device)",
                CopyKind::DeviceToDevice,
                (Device, Device),
            ),
            (
                "Memcpy PtoP (Device -> Managed Static)",
                CopyKind::PeerToPeer,
                (Device, Managed),
            ),
            (
                "Memcpy HtoD (Host -> Device)",
                CopyKind::HostToDevice,
                (Unknown, Device),
            ),
            ("Memcpy DtoA", CopyKind::Array, (Unknown, Unknown)),
            ("Memcpy", CopyKind::Unknown, (Unknown, Unknown)),
        ] {
            assert_eq!(
                (copy_kind(name, false), memory_kinds(name, false)),
                (kind, memory),
                "{name}"
            );
        }
        assert_eq!(copy_kind("Memset (Device)", true), CopyKind::Memset);
        assert_eq!(memory_kinds("Memset (Device)", true), (Unknown, Device));
    }
}
