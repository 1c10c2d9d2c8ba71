/** A start failure that the operator can fix. Its message is printed as it is, without a stack. */
export class StartError extends Error {
  override readonly name = 'StartError'
}
