// SPDX-License-Identifier: BSD-2-Clause
// A panic that unwinds through a hundred frames to catch_unwind, with destructors on the way.
// Protocol: known.h.
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};

const ROUNDS: u64 = 200;

static DROPPED: AtomicU64 = AtomicU64::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

#[no_mangle]
#[inline(never)]
pub fn panic_frame(n: u32, fail: bool) -> u32 {
    if n == 0 {
        if fail {
            panic!("at the bottom");
        }
        return 1;
    }
    black_box(panic_frame(black_box(n - 1), fail)) + 1
}

#[no_mangle]
#[inline(never)]
pub fn panic_guarded(fail: bool) -> u32 {
    let _guard = Guard;
    black_box(panic_frame(black_box(99), fail))
}

#[no_mangle]
#[inline(never)]
pub fn panic_catcher(fail: bool) -> bool {
    panic::catch_unwind(|| panic_guarded(black_box(fail))).is_err()
}

fn say(line: &str) {
    println!("{line}");
    io::stdout().flush().expect("stdout");
}

fn main() {
    let mut runs = 0u64;

    panic::set_hook(Box::new(|_| {}));
    say(&format!("ready {}", std::process::id()));
    for line in io::stdin().lock().lines() {
        if line.expect("stdin") != "go" {
            continue;
        }
        for i in 0..ROUNDS {
            assert_eq!(panic_catcher(i % 4 == 3), i % 4 == 3);
        }
        runs += 1;
        say("done");
    }
    assert_eq!(DROPPED.load(Ordering::Relaxed), runs * ROUNDS);
    say(&format!("expect panic_catcher calls {}", runs * ROUNDS));
    say(&format!("expect panic_guarded calls {}", runs * ROUNDS));
    say(&format!("expect panic_guarded unwound {}", runs * ROUNDS / 4));
    say(&format!("expect panic_frame calls {}", runs * ROUNDS * 100));
    say(&format!("expect panic_frame unwound {}", runs * ROUNDS / 4 * 100));
}
