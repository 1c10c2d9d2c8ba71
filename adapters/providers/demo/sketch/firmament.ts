/** Finds the sky of a source by its colours, without knowing what is in the picture. */
import type { Spot } from './fit.ts'
import type { Raster } from './png.ts'

/** `weights` says for each pixel how much it is sky, 0 to 255; `horizon` is its lower end as a share of the height. */
export type Firmament = { readonly weights: Uint8Array; readonly horizon: number }

const GRID = 64
const SEED_ROW = 5
/** Sky fades out from here to there, as shares of the height. */
const FADE = [0.5, 0.8] as const
/** How far colours may be apart, of 255: from one cell to the next, and from where the fill began. */
const STEP = 13
const AWAY = 190
/** What share of the picture is the least sky. */
const LEAST = 0.07

/** One colour for each cell of a grid, and how much it is sky. */
type Cells = { readonly colors: Float32Array; readonly cover: Float32Array }

/** Fills the part that is shown from near its upper edge through slowly changing colours. Undefined where that leads nowhere. */
export function firmamentOf(picture: Raster, shown: Spot): Firmament | undefined {
  const cells = cellsOf(picture, shown)
  flood(cells)
  const found = cells.cover.reduce((sum, cell) => sum + cell, 0)
  if (found < LEAST * GRID * GRID) return undefined
  const lowest = Math.ceil(cells.cover.lastIndexOf(1) / GRID) / GRID
  spread(cells)
  const horizon = (shown.y + Math.min(0.7, Math.max(0.35, lowest)) * shown.height) / picture.height
  return { weights: weightsOf(picture, shown, blurred(cells)), horizon }
}

/** A sky that fades out toward the middle, for pictures that show none. */
export function fadingSky({ width, height }: Raster): Firmament {
  const weights = new Uint8Array(width * height)
  for (let y = 0; y < height * 0.58; y++)
    weights.fill(Math.round(230 * Math.min(1, 2 - (y / height) * 3.4)), y * width, (y + 1) * width)
  return { weights, horizon: 0.55 }
}

function cellsOf({ width, data }: Raster, shown: Spot): Cells {
  const colors = new Float32Array(GRID * GRID * 3)
  for (let cell = 0; cell < GRID * GRID; cell++) {
    for (let part = 0; part < 16; part++) {
      const x = shown.x + Math.floor((((cell % GRID) + ((part % 4) + 0.5) / 4) * shown.width) / GRID)
      const y = shown.y + Math.floor(((Math.floor(cell / GRID) + ((part >> 2) + 0.5) / 4) * shown.height) / GRID)
      for (let i = 0; i < 3; i++)
        colors[cell * 3 + i] = (colors[cell * 3 + i] as number) + (data[(y * width + x) * 4 + i] as number) / 16
    }
  }
  return { colors, cover: new Float32Array(GRID * GRID) }
}

function flood({ colors, cover }: Cells): void {
  const apart = (a: number, b: number) => {
    const channel = (i: number) => Math.abs((colors[a * 3 + i] as number) - (colors[b * 3 + i] as number))
    return Math.max(channel(0), channel(1), channel(2))
  }
  const row = Array.from({ length: GRID - 8 }, (_, at) => SEED_ROW * GRID + 4 + at)
  const brightness = (cell: number) =>
    (colors[cell * 3] as number) + (colors[cell * 3 + 1] as number) + (colors[cell * 3 + 2] as number)
  const middle = [...row].sort((a, b) => brightness(a) - brightness(b))[Math.floor(row.length / 2)] as number
  const open = row.filter((cell) => apart(cell, middle) < 40).map((cell) => ({ cell, from: cell }))
  for (const { cell } of open) cover[cell] = 1
  for (let next = open.pop(); next; next = open.pop()) {
    const { cell, from } = next
    const [x, y] = [cell % GRID, Math.floor(cell / GRID)]
    const around = [
      x > 0 ? cell - 1 : cell,
      x < GRID - 1 ? cell + 1 : cell,
      y > 0 ? cell - GRID : cell,
      y < GRID * FADE[1] ? cell + GRID : cell,
    ]
    for (const neighbour of around) {
      if (cover[neighbour] || apart(cell, neighbour) > STEP || apart(from, neighbour) > AWAY) continue
      cover[neighbour] = 1
      open.push({ cell: neighbour, from })
    }
  }
}

/** Widens the sky by one cell, so that its edge is decided by each pixel's colour; new cells take the colour of their neighbours. */
function spread({ colors, cover }: Cells): void {
  const before = cover.slice()
  for (let cell = 0; cell < GRID * GRID; cell++) {
    if (before[cell]) continue
    const near = ring(cell).filter((at) => before[at])
    if (near.length === 0) continue
    cover[cell] = 1
    for (let i = 0; i < 3; i++)
      colors[cell * 3 + i] = near.reduce((sum, at) => sum + (colors[at * 3 + i] as number), 0) / near.length
  }
}

function blurred({ colors, cover }: Cells): Cells {
  const soft = cover.map((own, cell) => {
    const around = ring(cell)
    const mean = around.reduce((sum, at) => sum + (cover[at] as number), 0) / around.length
    return own * mean * mean
  })
  return { colors, cover: soft }
}

/** The cells around a cell, up to eight of them. */
function ring(cell: number): readonly number[] {
  const around = [-GRID - 1, -GRID, -GRID + 1, -1, 1, GRID - 1, GRID, GRID + 1].map((offset) => cell + offset)
  return around.filter((at) => at >= 0 && at < GRID * GRID && Math.abs((at % GRID) - (cell % GRID)) <= 1)
}

/** A pixel is sky where its cells are, as far as its colour is theirs. */
function weightsOf({ width, height, data }: Raster, shown: Spot, { colors, cover }: Cells): Uint8Array {
  const weights = new Uint8Array(width * height)
  const along = (share: number) => Math.min(GRID - 1.001, Math.max(0, share * GRID - 0.5))
  for (let y = 0; y < shown.height * FADE[1]; y++) {
    const down = along((y + 0.5) / shown.height)
    const fade = 255 * Math.min(1, (FADE[1] - y / shown.height) / (FADE[1] - FADE[0]))
    for (let x = 0; x < shown.width; x++) {
      const across = along((x + 0.5) / shown.width)
      const at = (shown.y + y) * width + shown.x + x
      let [found, sky, r, g, b] = [0, 0, 0, 0, 0]
      for (let corner = 0; corner < 4; corner++) {
        const cell = (Math.floor(down) + (corner >> 1)) * GRID + Math.floor(across) + (corner & 1)
        const own = cover[cell] as number
        if (own === 0) continue
        const share = (corner & 1 ? across % 1 : 1 - (across % 1)) * (corner >> 1 ? down % 1 : 1 - (down % 1))
        found += share * own
        sky += share
        r += share * (colors[cell * 3] as number)
        g += share * (colors[cell * 3 + 1] as number)
        b += share * (colors[cell * 3 + 2] as number)
      }
      if (found < 0.02) continue
      const [red, green, blue] = [data[at * 4] as number, data[at * 4 + 1] as number, data[at * 4 + 2] as number]
      const away = Math.abs(red - r / sky) + Math.abs(green - g / sky) + Math.abs(blue - b / sky)
      weights[at] = fade * Math.min(1, found * 1.5) * Math.min(1, Math.max(0, 1 - (away - 30) / 30))
    }
  }
  return weights
}
