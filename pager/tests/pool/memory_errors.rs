//! The kernel tells a process that asks for it (`PR_MCE_KILL`) of broken memory that it has not touched, by a SIGBUS that no
//! access has caused.
#![allow(unsafe_code, reason = "signals")]

use crate::common::*;
use coldset_pager::{PoolConfig, SwapConfig};
use std::os::unix::process::ExitStatusExt;

/// As the kernel sends it.
fn send_memory_error() {
    // SAFETY: zeroes are a value of it; a process may send itself whatever it likes.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (info.si_signo, info.si_code) = (libc::SIGBUS, libc::BUS_MCEERR_AO);
        let sent = libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            libc::gettid(),
            libc::SIGBUS,
            &raw const info,
        );
        assert_eq!(sent, 0);
    }
}

/// What the program has asked for happens: nothing, or the end.
#[test]
fn a_memory_error_is_left_to_the_program() {
    const NAME: &str = "a_memory_error_is_left_to_the_program";
    let Some(role) = child::role() else {
        let _others = together();
        let ended = |role| {
            let out = child::run(NAME, role);
            (out.status.code(), out.status.signal(), child::text(&out))
        };
        let (code, _, text) = ended("ignores");
        assert_eq!(code, Some(0), "{text}");
        let (_, signal, text) = ended("default");
        let skipped = text.contains("skipped");
        assert!(signal == Some(libc::SIGBUS) || skipped, "{signal:?} {text}");
        return;
    };
    let action = if role == "ignores" {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    // SAFETY: before there is any pool. No core file is left behind.
    unsafe {
        libc::signal(libc::SIGBUS, action);
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
    let config = PoolConfig::new(MIB).swap(SwapConfig::lz4(16 * MIB));
    let Some(pool) = faulting(config) else { return };
    let mut region = pool.anonymous(4 * MIB as usize).unwrap();
    send_memory_error();
    // By default it has ended the process.
    assert_eq!(role, "ignores");
    region.bytes_mut().fill(1);
}
