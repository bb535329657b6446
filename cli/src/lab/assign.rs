//! `NAME=VALUE` on the command line.

use coldset_lab::experiment::Costs;
use coldset_lab::runner::RunnerError;

/// Splits `NAME=VALUE`.
fn pair<'a>(what: &'static str, text: &'a str) -> Result<(&'a str, &'a str), RunnerError> {
    text.split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .ok_or_else(|| RunnerError::value(what, text, "NAME=VALUE"))
}

/// The default costs with assignments.
///
/// # Errors
/// Unknown name, or a value that is no whole number.
pub fn costs(assignments: &[String]) -> Result<Costs, RunnerError> {
    let mut costs = Costs::default();
    for text in assignments {
        let (name, value) = pair("cost", text)?;
        // The name first: a misspelt one should not be answered with a complaint about the value.
        costs.table().get(name)?;
        let value = value.replace('_', "");
        let value = value
            .parse()
            .map_err(|_| RunnerError::value("cost", text, "NAME=VALUE with a whole number"))?;
        costs.set(name, value)?;
    }
    Ok(costs)
}

/// Parameters of an experiment, unchecked.
///
/// # Errors
/// Not of the form.
pub fn params(assignments: &[String]) -> Result<Vec<(String, String)>, RunnerError> {
    let own = |(n, v): (&str, &str)| (n.to_owned(), v.to_owned());
    let one = |text: &String| pair("param", text).map(own);
    assignments.iter().map(one).collect()
}
