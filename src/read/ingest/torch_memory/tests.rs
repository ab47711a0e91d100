#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{import_bytes, sniffs};

/// Opcodes of protocol 4, put together by hand.
fn text(text: &str) -> Vec<u8> {
    [&[0x8c, text.len() as u8], text.as_bytes(), &[0x94]].concat()
}

fn int(value: i64) -> Vec<u8> {
    [&[0x8a, 8][..], &value.to_le_bytes()].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"]\x94(".to_vec(), items.concat(), b"e".to_vec()].concat()
}

fn dict(items: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let items: Vec<u8> = items
        .iter()
        .flat_map(|(key, value)| [text(key), value.clone()].concat())
        .collect();
    [b"}\x94(".to_vec(), items, b"u".to_vec()].concat()
}

fn pickled(value: &[u8]) -> Vec<u8> {
    [b"\x80\x04", value, b"."].concat()
}

fn event(action: &str, address: i64, size: i64, time: i64) -> Vec<u8> {
    let frames = list(&[dict(&[("name", text("f")), ("line", b"K\x07".to_vec())])]);
    dict(&[
        ("action", text(action)),
        ("addr", int(address)),
        ("size", int(size)),
        ("stream", b"K\x00".to_vec()),
        ("time_us", int(time)),
        ("frames", frames),
    ])
}

/// 100 bytes are held at the end, of 2000 reserved.
fn snapshot(events: &[Vec<u8>]) -> Vec<u8> {
    let block = |size, state| {
        dict(&[
            ("size", int(512)),
            ("requested_size", int(size)),
            ("state", text(state)),
        ])
    };
    let blocks = list(&[block(100, "active_allocated"), block(50, "inactive")]);
    let segment = dict(&[
        ("device", b"K\x00".to_vec()),
        ("total_size", int(2000)),
        ("blocks", blocks),
    ]);
    pickled(&dict(&[
        ("segments", list(&[segment])),
        ("device_traces", list(&[list(events), list(&[])])),
    ]))
}

#[test]
fn totals_are_counted_backwards_from_the_segments() {
    let events = [
        event("alloc", 1, 40, 10),
        event("segment_alloc", 9, 1500, 11),
        event("alloc", 2, 100, 12),
        event("free_requested", 1, 40, 13),
        event("free_completed", 1, 40, 14),
    ];
    let bytes = snapshot(&events);
    assert!(sniffs(&IMPORTER, "x", &bytes));
    let (result, session, diagnostics) = import_bytes(&IMPORTER, "snapshot.pickle", &bytes);
    assert!(result.is_ok(), "{result:?}");
    let rows = &session.memory_events;
    assert_eq!(rows.time, [Ns(10_000), Ns(12_000), Ns(13_000)]);
    assert_eq!(rows.bytes, [40, 100, -40]);
    // At the end 100; before the free 140; before the second allocation 40.
    assert_eq!(rows.allocated, [Some(40), Some(140), Some(100)]);
    assert_eq!(rows.reserved, [Some(500), Some(2000), Some(2000)]);
    assert_eq!((rows.device[0], rows.address[1]), (Some(0), 2));
    assert_eq!(diagnostics.iter().count(), 0);
}

#[test]
fn pickles_of_other_than_data_and_damaged_ones_are_refused() {
    let error = |bytes: &[u8]| {
        import_bytes(&IMPORTER, "snapshot.pickle", bytes)
            .0
            .unwrap_err()
            .to_string()
    };
    // `os.system("true")`, as an attack would write it.
    assert!(error(b"\x80\x04cos\nsystem\n(X\x04\x00\x00\x00truetR.").contains("0x63"));
    assert!(error(b"\x80\x04").contains("cut off"));
    assert!(error(b"\x80\x04h\x07.").contains("reference to nothing"));
    assert!(error(b"\x80\x04a.").contains("without a value"));
    assert!(error(b"\x80\x04e.").contains("without a mark"));
    assert!(error(b"\x80\x04K\x01K\x02a.").contains("no list"));
    assert!(error(&snapshot(&[])).contains("no timed allocation"));
    let whole = snapshot(&[event("alloc", 1, 40, 10)]);
    for length in 0..whole.len() {
        assert!(
            import_bytes(&IMPORTER, "snapshot.pickle", &whole[..length])
                .0
                .is_err(),
            "{length}"
        );
    }
    let (_, session, diagnostics) = import_bytes(
        &IMPORTER,
        "snapshot.pickle",
        snapshot(&[event("alloc", 1, -40, 10), event("alloc", 1, 40, 10)]),
    );
    assert_eq!(
        (
            session.memory_events.len(),
            diagnostics.iter().next().unwrap().count
        ),
        (1, 1)
    );
}

#[test]
fn depth_and_sharing_cost_no_more_than_their_bytes() {
    // A million lists in one another.
    let deep = [
        b"\x80\x04".to_vec(),
        vec![b']'; 1 << 20],
        vec![b'a'; (1 << 20) - 1],
        b".".to_vec(),
    ];
    assert!(Pickle::read(&deep.concat(), u64::MAX).is_ok());
    assert!(matches!(
        Pickle::read(&deep.concat(), 1 << 20).map_err(|e| e.kind),
        Err(IngestErrorKind::Budget)
    ));
    // A list that holds itself.
    let pickle = Pickle::read(b"\x80\x04]\x94h\x00a.", 4096).unwrap();
    assert_eq!(pickle.items(Some(pickle.root())), [pickle.root()]);
}
