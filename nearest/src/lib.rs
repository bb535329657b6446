//! Which known name a misspelt one resembles, for the error messages of all crates.

/// Jaro-Winkler similarity from which a name is worth suggesting.
const SIMILAR: f64 = 0.8;

/// `; did you mean 'x'?` with the most similar of the `known` names, to end an error message with.
/// Empty if no name is similar.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, known)| {
            format!("; did you mean '{known}'?")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_and_beginnings_are_recognised_and_other_words_are_not() {
        let known = ["classic", "nvme_read_lat_ns", "stale-writer", "v5"];
        for (typed, meant) in [
            ("clasic", "classic"),
            ("nvme_raed_lat_ns", "nvme_read_lat_ns"),
            ("stale", "stale-writer"),
            ("v55", "v5"),
        ] {
            assert_eq!(
                did_you_mean(typed, known),
                format!("; did you mean '{meant}'?")
            );
        }
        for other in ["", "zzzz", "throughput"] {
            assert_eq!(did_you_mean(other, known), "", "{other}");
        }
    }
}
