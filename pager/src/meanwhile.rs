//! Moments between two steps at which a test wants other threads to get in.

/// Such a moment. Nothing but in tests of this crate: there the others have their turn.
pub(crate) fn meanwhile() {
    #[cfg(test)]
    std::thread::yield_now();
}
