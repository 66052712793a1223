//! What is sent to providers, to the byte, and what is made of what they answer.

mod answers;
mod bodies;
mod failures;
mod frames;
mod house;
mod limits;
mod servers;
