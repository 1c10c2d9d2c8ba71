/** A reason not to start that the operator can do something about: printed as it is, without a stack. */
export class StartError extends Error {
  override readonly name = 'StartError'
}
