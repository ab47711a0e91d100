//! Two ranks that meet in collectives, and their messages.

use rooflens_session::{Collective, DeviceSample, LaunchId, Ns, Session};

use super::trace;

pub const US: i64 = 1000;

pub const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T)";

/// Two processes of one pass, each on a GPU of its own, that meet in an all-reduce every 100 µs. Rank 0 computes
/// for 40 µs and waits until rank 1, which computes for `slow` µs, has come; the message takes 5 µs, and rank 1
/// computes during the last 2 µs of it.
pub fn session(steps: i64, slow: i64, kernels: [&str; 2]) -> Session {
    let mut events = String::new();
    for step in 0..steps {
        // A little irregular, as all steps are.
        let begin = step * 100 + step % 3;
        let done = begin + slow + 5;
        for (rank, compute) in [40, slow].into_iter().enumerate() {
            let (kernel, arrived) = (kernels[rank], begin + compute);
            events += &format!("rank {rank}\nstream 7: {kernel} {begin}us..{arrived}us\n");
            events += &format!("stream 17: {ALL_REDUCE} {arrived}us..{done}us\n");
        }
        events += &format!("stream 7: adam {}us..{}us\n", done - 2, done + 1);
    }
    trace(&events)
}

/// An NVML sample of each GPU every 10 µs: rank 0 at 1.98 GHz, rank 1 at 1.44 GHz under a power cap.
pub fn sample(session: &mut Session, until: i64) {
    session.passes.utc_origin[0] = Some(Ns(1_000_000_000));
    let artifact = session.intern("nsys/nvml.csv");
    for at in (0..until).step_by(10_000) {
        for (device, mhz, reasons) in [(0, 1980, 0), (1, 1440, 4)] {
            session.device_samples.push(DeviceSample {
                utc: Ns(1_000_000_000 + at),
                device,
                power_mw: None,
                sm_mhz: Some(mhz),
                memory_mhz: None,
                gpu_util: None,
                memory_util: None,
                temperature: None,
                memory_used: None,
                throttle_reasons: Some(reasons),
                artifact,
            });
        }
    }
}

/// Rank 0 sends 1 MB to rank 1 three times. Rank 1 waits 30 µs for the first, which takes 10 µs; rank 0 waits in the
/// second for the 8 µs until rank 1 comes, and needs 17 µs; the third is done before rank 1 comes, and nobody waits.
pub fn messages() -> Session {
    let kernel = "ncclDevKernel_SendRecv(T)";
    let mut session = trace(&format!(
        "rank 0
         stream 17: {kernel} 30us..40us, {kernel} 100us..125us, {kernel} 200us..210us
         rank 1
         stream 17: {kernel} 0us..40us, {kernel} 108us..125us, {kernel} 250us..258us"
    ));
    for launch in 0..6 {
        let rank = launch / 3;
        let operation = ["ncclSend", "ncclRecv"][rank];
        let bytes = |sender: usize| Some(if rank == sender { 1_000_000 } else { 0 });
        let row = Collective {
            group: session.intern("0xab"),
            bytes_in: bytes(0),
            bytes_out: bytes(1),
            peer: Some(1 - rank as u32),
            ..collective(&mut session, launch, operation)
        };
        session.collectives.push(row);
    }
    session
}

/// One step of two ranks; the first all-reduce of rank 0, which takes 25 µs, is of 1 MB among 8 ranks.
pub fn sized() -> Session {
    let mut session = session(1, 60, ["gemm", "gemm"]);
    let bytes = Some(1_000_000);
    // The second launch is rank 0's all-reduce.
    let (collective, ranks) = (
        collective(&mut session, 1, "allreduce"),
        session.intern("BFloat16"),
    );
    session.collectives.push(Collective {
        bytes_in: bytes,
        bytes_out: bytes,
        group_size: Some(8),
        group: collective.operation,
        ranks,
        sequence: Some(1),
        ..collective
    });
    session
}

/// A collective of the launch with that number, of unknown group.
fn collective(session: &mut Session, launch: usize, operation: &str) -> Collective {
    Collective {
        launch: LaunchId::at(launch),
        operation: session.intern(operation),
        dtype: Default::default(),
        bytes_in: None,
        bytes_out: None,
        group_size: None,
        group: Default::default(),
        ranks: Default::default(),
        sequence: None,
        rank: None,
        peer: None,
    }
}
