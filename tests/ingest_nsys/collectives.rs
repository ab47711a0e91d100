//! Collectives out of NCCL's ranges, their payloads, and the kernels that they launch.

use rooflens::session::Collectives;

use super::*;

/// Schemas as NCCL registers them; offset and type of a first field that begins at 0 are as exports write them.
const SCHEMAS: &str = "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER NOT NULL,
    schemaId INTEGER NOT NULL, idx INTEGER NOT NULL, flags INTEGER, type INTEGER, name TEXT,
    description TEXT, arrayOrUnionDetail INTEGER, offset INTEGER);
    INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES
    (1, 101, 0, NULL, 18, 'NCCL communicator ID', NULL, NULL, NULL),
    (1, 101, 1, NULL, 5, 'No. of ranks', NULL, NULL, 8), (1, 101, 2, NULL, 5, 'Rank', NULL, NULL, 12),
    (1, 102, 0, NULL, 18, 'NCCL communicator ID', NULL, NULL, NULL),
    (1, 102, 1, NULL, 22, 'Message size [bytes]', NULL, NULL, 8),
    (1, 103, 0, NULL, 18, 'NCCL communicator ID', NULL, NULL, NULL),
    (1, 103, 1, NULL, 22, 'Message size [bytes]', NULL, NULL, 8),
    (1, 103, 2, NULL, 5, 'Peer rank', NULL, NULL, 16),
    (1, 104, 0, NULL, 18, 'NCCL communicator ID', NULL, NULL, NULL),
    (1, 104, 1, NULL, 22, 'Message size [bytes]', NULL, NULL, 8),
    (1, 104, 2, NULL, 5, 'Root', NULL, NULL, 16)";

const PROCESS: i64 = global(7, 0);
const THREAD: i64 = global(7, 1);

/// Schema, communicator, a word of eight bytes, one of four.
type Payload = (u64, u64, u64, u32);

/// An export in which NCCL's ranges come one after another, 100 ns each, from 1000 on.
struct Export {
    statements: Vec<String>,
    time: i64,
}

impl Export {
    fn new() -> Self {
        let names = "INSERT INTO StringIds VALUES (10, 'ncclDevKernel_Generic(T)')";
        let ranges = format!(
            "{RANGES}; ALTER TABLE NVTX_EVENTS ADD COLUMN binaryData TEXT; INSERT INTO NVTX_EVENTS
             (start, eventType, text, globalTid, domainId) VALUES (0, 75, 'NCCL', {THREAD}, 1)"
        );
        let statements = [STRINGS, names, KERNELS_2020, CALLS, &ranges];
        Self {
            statements: statements.map(str::to_owned).to_vec(),
            time: 900,
        }
    }

    /// A range with the payload of that schema: communicator, a word of eight bytes, a word of four.
    fn range(mut self, name: &str, payload: Option<Payload>) -> Self {
        self.time += 100;
        let hex = payload.map_or("NULL".to_owned(), |(schema, communicator, wide, narrow)| {
            let words = [1, schema, 24, 32, communicator, wide];
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.extend(narrow.to_le_bytes());
            bytes.extend([0x3a; 4]);
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{digits}'")
        });
        self.statements.push(format!(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, binaryData)
             VALUES ({}, {} + 90, 59, '{name}', {THREAD}, 1, {hex})",
            self.time, self.time
        ));
        self
    }

    /// The communicator `id`: its ranks in the low half of a word, the own rank in the high half.
    fn communicator(self, id: u64, ranks: u64, rank: u64) -> Self {
        self.range(
            "ncclCommInitRankConfig",
            Some((101, id, rank << 32 | ranks, 0)),
        )
    }

    /// Kernels that the last range launches.
    fn kernels(mut self, count: i64) -> Self {
        for number in 1..=count {
            let (at, id) = (self.time + number, self.time + number);
            self.statements.push(call(at, at + 1, 0, THREAD, id, 3));
            self.statements
                .push(kernel(at + 20, at + 30, id, PROCESS).replace(", 1, 2, ", ", 10, 10, "));
        }
        self
    }

    fn import(self) -> Imported {
        let statements: Vec<&str> = self.statements.iter().map(String::as_str).collect();
        import(&statements)
    }
}

fn bytes(table: &Collectives) -> Vec<(Option<u64>, Option<u64>)> {
    table
        .bytes_in
        .iter()
        .copied()
        .zip(table.bytes_out.iter().copied())
        .collect()
}

/// A communicator of 4 ranks, of which this is number 2; sizes as NCCL states them, 1000 bytes each.
#[test]
fn sizes_of_messages_become_input_and_output() {
    let names = [
        ("ncclAllReduce", 102, Some(1000), Some(1000)),
        ("ncclAllGather", 102, Some(1000), Some(4000)),
        ("ncclReduceScatter", 102, Some(4000), Some(1000)),
        ("ncclAlltoAll", 102, Some(4000), Some(4000)),
        ("ncclSend", 103, Some(1000), Some(0)),
        ("ncclRecv", 103, Some(0), Some(1000)),
        ("ncclBroadcast", 104, Some(1000), Some(1000)),
        ("ncclReduce", 104, Some(1000), Some(1000)),
    ];
    let mut export = Export::new().communicator(0xab, 4, 2);
    export.statements.push(SCHEMAS.to_owned());
    for (name, schema, ..) in names {
        export = export.range(name, Some((schema, 0xab, 1000, 2))).kernels(1);
    }
    let read = export.import();
    let table = &read.session.collectives;
    assert_eq!(
        bytes(table),
        names.map(|(_, _, input, output)| (input, output))
    );
    assert_eq!(read.names(&table.operation), names.map(|(name, ..)| name));
    assert_eq!(read.names(&table.group), ["0x00000000000000ab"; 8]);
    assert_eq!((table.group_size[0], table.rank[0]), (Some(4), Some(2)));
    let peers = [None, None, None, None, Some(2), Some(2), None, None];
    assert_eq!(table.peer, peers);
    assert_eq!(
        table.launch.iter().map(|id| id.index()).collect::<Vec<_>>(),
        (0..8).collect::<Vec<_>>()
    );
}

#[test]
fn without_payloads_the_operation_is_known_and_no_size() {
    let read = Export::new()
        .range("ncclAllGather", None)
        .kernels(1)
        .import();
    let table = &read.session.collectives;
    assert_eq!(
        (read.names(&table.operation), bytes(table)),
        (vec!["ncclAllGather"], vec![(None, None)])
    );
    assert_eq!(
        (read.names(&table.group), table.group_size[0]),
        (vec![""], None)
    );
    // A communicator that was made before the capture: one rank's share is known, the whole is not.
    let late = Export::new()
        .range("ncclAllGather", Some((102, 0xab, 1000, 0)))
        .kernels(1);
    let mut late = late;
    late.statements.push(SCHEMAS.to_owned());
    assert_eq!(
        bytes(&late.import().session.collectives),
        [(Some(1000), None)]
    );
}

#[test]
fn the_end_of_a_group_launches_for_its_calls() {
    let message = |name: &'static str, size, peer| (name, Some((103, 0xab, size, peer)));
    let group = |calls: &[(&'static str, Option<Payload>)], kernels| {
        let mut export = Export::new()
            .communicator(0xab, 2, 0)
            .range("ncclGroupStart", None);
        export.statements.push(SCHEMAS.to_owned());
        for (name, payload) in calls {
            export = export.range(name, *payload);
        }
        let read = export.range("ncclGroupEnd", None).kernels(kernels).import();
        let table = &read.session.collectives;
        let operations: Vec<String> = read
            .names(&table.operation)
            .into_iter()
            .map(str::to_owned)
            .collect();
        let unjoined: u64 = read
            .codes()
            .iter()
            .map(|one| u64::from(one.0 == "nsys/unjoined-collectives") * one.2)
            .sum();
        (operations, bytes(table), table.peer.clone(), unjoined)
    };
    let own = |name: &str| vec![name.to_owned()];
    // One message.
    let found = group(&[message("ncclSend", 10, 1)], 1);
    assert_eq!(
        found,
        (own("ncclSend"), vec![(Some(10), Some(0))], vec![Some(1)], 0)
    );
    // To one rank and from it; to and from each rank, this one too.
    let both = [message("ncclSend", 10, 1), message("ncclRecv", 30, 1)];
    assert_eq!(
        group(&both, 1),
        (
            own("sendrecv"),
            vec![(Some(10), Some(30))],
            vec![Some(1)],
            0
        )
    );
    let all = [
        message("ncclSend", 10, 0),
        message("ncclRecv", 10, 0),
        message("ncclSend", 10, 1),
        message("ncclRecv", 30, 1),
    ];
    assert_eq!(
        group(&all, 1),
        (own("alltoall"), vec![(Some(20), Some(40))], vec![None], 0)
    );
    // Several all-reduces in one kernel; different calls in one; one call without a kernel, or with two.
    let reduce = |name: &'static str| (name, Some((102, 0xab, 1000, 0)));
    let twice = [reduce("ncclAllReduce"), reduce("ncclAllReduce")];
    assert_eq!(
        group(&twice, 1),
        (
            own("ncclAllReduce"),
            vec![(Some(2000), Some(2000))],
            vec![None],
            0
        )
    );
    let nothing = |unjoined| (Vec::new(), Vec::new(), Vec::new(), unjoined);
    assert_eq!(
        group(&[reduce("ncclAllReduce"), reduce("ncclAllGather")], 1),
        nothing(2)
    );
    assert_eq!(group(&both[..1], 0), nothing(1));
    assert_eq!(group(&both, 2), nothing(2));
}

#[test]
fn kernels_of_other_ranges_and_malformed_payloads_are_left_alone() {
    let mut export = Export::new()
        .communicator(0xab, 2, 0)
        .range("ncclAllReduce", None)
        .kernels(1);
    export.statements.push(SCHEMAS.to_owned());
    // The second range says that its payload has 24 bytes at 32, and ends before.
    export.statements.push(format!(
        "UPDATE NVTX_EVENTS SET binaryData = x'01000000000000006600000000000000180000000000000020' WHERE start = {}",
        export.time
    ));
    let read = export.range("user", None).kernels(1).import();
    assert_eq!(bytes(&read.session.collectives), [(None, None)]);
    assert!(
        read.codes()
            .contains(&("nsys/bad-payloads", Severity::Notice, 1)),
        "{:?}",
        read.codes()
    );
}
