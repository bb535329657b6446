//! What the release of a kernel says of it.

/// Its version of a label that begins with its release: (6, 18) of `6.18.15+deb13-cloud-amd64 classic`.
pub fn version(label: &str) -> Option<(u32, u32)> {
    let mut numbers = label
        .split(['.', '+', '-', '~', ' '])
        .map_while(|n| n.parse::<u32>().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// It ends slices by a timer, `HRTICK` among its scheduler's features: Debian's 7.2 and 7.3 do, 6.12 and 6.18 do not
/// (`scripts/costs-on-kernels`).
pub(super) fn ends_slices_by_timer(label: &str) -> bool {
    version(label).is_some_and(|version| version >= (7, 0))
}

/// Its ext4 makes large folios: that of 6.18 and of what follows does, that of 6.12 does not
/// (`docs/rules/large-folios.md`); 6.16 brought them.
pub(super) fn has_large_folios(label: &str) -> bool {
    version(label).is_some_and(|version| version >= (6, 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_a_version() {
        for (label, is) in [
            ("6.18.15+deb13-cloud-amd64 classic", Some((6, 18))),
            ("7.2~rc3 mglru 0x7", Some((7, 2))),
            ("linux", None),
        ] {
            assert_eq!(version(label), is, "{label}");
        }
        assert!(ends_slices_by_timer("7.2.13+deb14-cloud-amd64 mglru 0x7"));
        assert!(!ends_slices_by_timer("6.18.15+deb13-cloud-amd64 mglru 0x7"));
        assert!(has_large_folios("6.18.15+deb13-cloud-amd64 mglru 0x7"));
        assert!(!has_large_folios("6.12.117+deb13-cloud-amd64 mglru 0x7"));
    }
}
