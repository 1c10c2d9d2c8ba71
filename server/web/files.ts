/** The files of the web pages. A release has them ready: its build puts them in the place of this file. */
import { bundle, type WebFile } from './bundle.ts'

export const webFiles = async (): Promise<readonly WebFile[]> => (await bundle()).files
