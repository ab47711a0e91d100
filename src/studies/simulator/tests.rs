//! Schedules by hand, on hardware of round numbers.

use crate::*;

/// A token takes 1 s to compute, weights 2 s to read; nothing else takes time.
fn setup() -> Setup {
    Setup {
        hardware: Hardware {
            rate: 1.0,
            bandwidth: 1.0,
            parts: vec![Part {
                flops: 1.0,
                bytes: 2.0,
            }],
            head: Part {
                flops: 0.0,
                bytes: 0.0,
            },
            pair: 0.0,
            cached: 0.0,
            row: 0.0,
            overhead: 0.0,
            prefill_work: 1.0,
            decode_work: 1.0,
        },
        engine: Engine {
            slots: 2,
            blocks: 100,
            block: 1,
            budget: 8,
            chunked: true,
            prefix: 0,
            speculation: None,
        },
        client: Client {
            arrivals: Arrivals::Closed(3),
            connections: None,
            delay: 0.0,
        },
        workload: Workload {
            requests: 3,
            prompt: (4, 4),
            output: (3, 3),
            seed: 1,
        },
    }
}

fn tokens(setup: &Setup) -> Vec<Vec<f64>> {
    let outcome = run(setup);
    let requests = outcome.requests.into_iter();
    requests.map(|request| request.tokens).collect()
}

#[test]
fn a_third_request_waits_for_a_slot() {
    // Two prompts of 4 in 8 s, two steps of 2 tokens in 2 s each; then a prompt in 4 s and two steps.
    assert_eq!(
        tokens(&setup()),
        [
            vec![8.0, 10.0, 12.0],
            vec![8.0, 10.0, 12.0],
            vec![16.0, 18.0, 20.0]
        ]
    );
}

#[test]
fn chunks_share_steps_with_decoding() {
    let mut setup = setup();
    setup.engine.budget = 4;
    // A prompt; one token and 3 of the next prompt; one token and its last 1; one token and 3 of the third one; 1 and 1.
    assert_eq!(
        tokens(&setup)[..2],
        [vec![4.0, 8.0, 10.0], vec![10.0, 14.0, 16.0]]
    );
}

#[test]
fn whole_prompts_come_first_without_chunks() {
    let mut setup = setup();
    (setup.engine.chunked, setup.engine.budget) = (false, 4);
    // A prompt in 4 s, the other one in 4 s, then both decode.
    assert_eq!(
        tokens(&setup)[..2],
        [vec![4.0, 10.0, 12.0], vec![8.0, 10.0, 12.0]]
    );
}

#[test]
fn a_full_cache_preempts_the_last_request() {
    let mut setup = setup();
    setup.engine.blocks = 9;
    let outcome = run(&setup);
    // Two prompts take 8 of 9 blocks; both want one more.
    let preemptions = outcome.samples.iter().map(|sample| sample.preemptions);
    assert_eq!(preemptions.max(), Some(1));
    assert_eq!(outcome.requests[0].tokens, [8.0, 10.0, 12.0]);
    assert!(outcome.requests[1].tokens[1] > 12.0);
    assert_eq!(outcome.requests.len(), 3);
}

#[test]
fn a_cached_prefix_is_not_computed_and_right_guesses_are_free() {
    let mut setup = setup();
    (setup.engine.prefix, setup.engine.speculation) = (3, Some((1, 1.0)));
    // One token of each prompt in 2 s; then both remaining tokens of both, 4 computed ones, in 4 s.
    assert_eq!(
        tokens(&setup)[..2],
        [vec![2.0, 6.0, 6.0], vec![2.0, 6.0, 6.0]]
    );
}

#[test]
fn a_request_without_a_connection_is_sent_late() {
    let mut setup = setup();
    setup.client = Client {
        arrivals: Arrivals::Open(1000.0),
        connections: Some(2),
        delay: 0.0,
    };
    let outcome = run(&setup);
    assert_eq!(outcome.requests[2].sent, outcome.requests[0].end());
    assert!(outcome.requests[2].due < 1.0);
}

#[test]
fn requests_take_their_time_to_the_engine() {
    let mut setup = setup();
    (setup.client.delay, setup.workload.requests) = (5.0, 1);
    // 5 s on the way, a prompt of 4 in 4 s, two steps of 2 s.
    assert_eq!(tokens(&setup), [vec![9.0, 11.0, 13.0]]);
}
