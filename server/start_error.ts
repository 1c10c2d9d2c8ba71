/** A start failure that the operator can fix. Its message is printed as it is, without a stack. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

/** Runs a step of the start. Its error becomes one line for the operator that names the setting. */
export async function orRefuse<T>(setting: string, step: () => T | Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`${setting}: ${(error as Error).message}`)
  }
}
