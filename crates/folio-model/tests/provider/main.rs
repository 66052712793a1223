//! Requests to providers, to the byte, and how their answers are read.

mod answers;
mod bodies;
mod failures;
mod frames;
mod house;
mod limits;
mod servers;
