//! The samples that the project carries in `data/samples`, against their description in
//! `data/README.md`.
