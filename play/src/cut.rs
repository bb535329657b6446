//! Files that a task truncates or removes while another one uses them, which can happen where tasks run at once.

use crate::plan::Cast;
use crate::worker::{cut_off, is_mapped};
use coldset_traces::{Op, Record};

/// A worker has ended because what it had mapped of a file was gone (SIGBUS). `done`: accesses that were done, by seat.
pub(crate) fn of_worker(work: &[Record], cast: &Cast, worker: usize, done: &[u64]) -> String {
    let (process, seats) = &cast.workers()[worker];
    let at = |seat: usize| -> Option<(u64, Op)> {
        let count = *done.get(seat)?;
        let own = work.iter().filter(|record| cast.seat(record) == seat);
        let mut accesses = own.filter_map(|record| match record {
            Record::Access(op) => Some(*op),
            Record::Step(_) => None,
        });
        let op = accesses.nth(count as usize)?;
        (is_mapped(op.kind) && !op.kind.is_anon()).then_some((count, op))
    };
    let found: Vec<_> = seats.clone().filter_map(at).collect();
    match (found.as_slice(), process) {
        ([(count, op)], _) => format!("access {count}: {}", cut_off(op)),
        // Of several threads it is not known which.
        ([_, (count, op), ..], Some(process)) => format!(
            "a thread of process {process}, such as the one at access {count}: {}",
            cut_off(op)
        ),
        ([_, (count, op), ..], None) => format!("access {count} or another: {}", cut_off(op)),
        ([], _) => "a worker lost what it had mapped (SIGBUS): another task has truncated or removed a file meanwhile; \
                    play with --order strict"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Tasks};
    use coldset_traces::{OpKind, Order, Trace};

    #[test]
    fn the_access_under_way_is_named() {
        let op = |i: u32| Op {
            kind: [OpKind::MappedRead, OpKind::Pread][i as usize % 4 / 2],
            object: (i % 2) as u8,
            task: (i % 2) as u16,
            page: i,
        };
        let trace = Trace::from_ops((0..40).map(op).collect());
        let plan = Plan::of_tests(Tasks::Processes, Order::PerTask);
        let cast = Cast::of(&trace, &plan).unwrap();
        let work: Vec<Record> = trace.records().collect();
        let said = of_worker(&work, &cast, 1, &[3, 6]);
        assert_eq!(
            said,
            "access 6: task 1, object 1, page 13: another task has truncated or removed the file meanwhile; play with \
             --order strict, where tasks take turns as the trace has it"
        );
        // A `pread` gets no signal, so what did is not known.
        let said = of_worker(&work, &cast, 1, &[3, 7]);
        assert!(
            said.contains("SIGBUS") && said.contains("--order strict"),
            "{said}"
        );
    }
}
