//! What every list policy must do ([`battery`]), the papers' rules followed by hand ([`worked`]), and
//! plain models of them ([`models`]).

mod battery;
mod models;
mod outside;
mod page;
mod worked;
