//! How many threads work.

use super::RunnerError;

/// Runs `work` with `jobs` threads (none: one for each CPU). What runs in parallel inside it
/// uses these threads.
///
/// # Errors
/// [`RunnerError::Threads`].
pub fn with_jobs<T: Send>(
    jobs: Option<usize>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, RunnerError> {
    let mut builder = rayon::ThreadPoolBuilder::new();
    if let Some(jobs) = jobs {
        builder = builder.num_threads(jobs);
    }
    let pool = builder.build().map_err(|error| RunnerError::Threads {
        jobs: jobs.unwrap_or(0),
        why: error.to_string(),
    })?;
    Ok(pool.install(work))
}
