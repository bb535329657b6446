//! Into which folios kernels read and write, on file systems with large ones and without.

use super::*;

/// Programs as those of [`super::KERNEL`] with large folios (`scripts/read-ahead-on-kernels`): `FIRST^ORDER` of each folio that a
/// read brought in, or a write, `wPAGE+PAGES`.
const LARGE: &str = include_str!("../large.txt");

/// The same, where kernels differ; the preset of the kernel comes first.
const DIFFER: &str = include_str!("../differ.txt");

impl Host {
    fn with_folios(variant: &str, order: u8, read_ahead: ReadAhead) -> Self {
        let mut cfg = MachineConfig::new(preset(variant).unwrap());
        cfg.large_folios = order;
        cfg.read_ahead = read_ahead;
        Self::of(cfg, 4096)
    }

    fn write_call(&mut self, page: u32, pages: u32) {
        let m = self.run.machine.clone();
        let write = m.write(&self.ctx, self.object, page, pages, true);
        self.run.run_inline(&self.ctx, write).unwrap();
    }

    /// The first page and the order of each that is cached.
    fn folios(&self) -> Vec<(u32, u8)> {
        let w = self.run.machine.world();
        let of = |page| Some((page, w.object(self.object).word(page).folio()?));
        let mut found: Vec<_> = (0..FILE).filter_map(of).collect();
        found.dedup_by_key(|f| f.1);
        let with_order = |(page, id)| (page, w.engine.folio(id).order());
        found.into_iter().map(with_order).collect()
    }
}

/// The programs read what the kernel has read, into the same folios.
fn fills_folios<'a>(variant: &str, order: u8, programs: impl Iterator<Item = &'a str>) {
    for line in programs {
        let (name, kb, steps) = program(line);
        let mut host = Host::with_folios(variant, order, ReadAhead::Windows { kb });
        for step in steps {
            let call = match step {
                Step::Advise(advice) => {
                    host.advise(advice);
                    continue;
                }
                Step::Call(call) => call,
            };
            let before = host.folios();
            match call.writes {
                true => host.write_call(call.page, call.pages),
                false => host.read(call.page, call.pages),
            }
            let mut new = host.folios();
            new.retain(|f| !before.contains(f));
            let folio = |f: &str| {
                let (first, order) = f.split_once('^').unwrap();
                (number(first), number(order) as u8)
            };
            let mut seen: Vec<_> = call
                .seen
                .split(',')
                .filter(|f| !f.is_empty())
                .map(folio)
                .collect();
            seen.sort_unstable();
            assert_eq!(new, seen, "{variant} {name}: {}", call.text);
        }
    }
}

#[test]
fn windows_fill_the_folios_of_a_kernel() {
    assert!(LARGE.lines().count() > 80);
    for variant in ["v618", "v72"] {
        fills_folios(variant, 9, LARGE.lines());
    }
}

#[test]
fn kernels_differ_in_what_is_cut_and_counted() {
    // The ext4 of 6.12 has no large folios.
    for (variant, order, least) in [("v612", 0, 15), ("v618", 9, 2), ("v72", 9, 2)] {
        let of_it = DIFFER.lines().filter_map(|line| line.split_once(' '));
        let of_it: Vec<&str> = of_it
            .filter(|(v, _)| *v == variant)
            .map(|(_, p)| p)
            .collect();
        assert!(of_it.len() >= least);
        fills_folios(variant, order, of_it.into_iter());
    }
}
